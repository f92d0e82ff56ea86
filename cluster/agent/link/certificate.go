package link

import (
	"context"
	"errors"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
)

// Times of renewing a certificate.
const (
	// answerTime is how long the leader may take to sign.
	answerTime = 30 * time.Second
	// lookAfter is how often the clock is looked at: a timer stands still while the machine sleeps.
	lookAfter = 10 * time.Minute
)

// renewCertificate asks for the next certificate whenever it is due, until the stream ends.
func (s *stream) renewCertificate(ctx context.Context) {
	node, log := s.link.contact.Certificate, s.link.contact.Log
	wait := node.Due()
	for s.sleep(ctx, min(wait, lookAfter)) {
		if wait = node.Due(); wait > 0 {
			continue
		}
		if err := s.nextCertificate(ctx); err != nil {
			wait = node.Again()
			log.Warn("certificate not renewed", "error", err, "retry", wait)
			continue
		}
		wait = node.Due()
		log.Info("certificate renewed", "next", wait)
		s.tellTrusts()
	}
}

// tellTrusts tells the leader which CAs the node follows.
func (s *stream) tellTrusts() {
	node, told := s.link.contact.Certificate, &api.Trusts{}
	for _, each := range node.Bundle().Fingerprints() {
		told.Trusted = append(told.Trusted, each.String())
	}
	if signer, known := node.Signer(); known {
		told.Signer = signer.String()
	}
	_ = s.send(&api.FromAgent{Message: &api.FromAgent_Trusts{Trusts: told}}) // the next stream tells it again
}

// sleep waits, or until other CAs are trusted, and reports false if the context ends before.
func (s *stream) sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.trusted:
		return true
	case <-time.After(wait):
		return true
	}
}

// trust trusts the CAs that the leader names from now on. If another one issues certificates now,
// the node's is renewed at once.
func (s *stream) trust(bundle []byte) {
	contact := &s.link.contact
	if err := contact.Certificate.Trust(bundle); err != nil {
		contact.Log.Warn("the cluster's other CAs are not trusted", "error", err)
		return
	}
	s.tellTrusts()
	select {
	case s.trusted <- struct{}{}:
	default: // it will look
	}
}

// errNotSigned means that the leader has not signed in time.
var errNotSigned = errors.New("the leader did not answer")

// nextCertificate asks for a certificate and puts it in place.
func (s *stream) nextCertificate(ctx context.Context) error {
	request, err := s.link.contact.Certificate.Request()
	if err != nil {
		return err
	}
	if err := s.send(&api.FromAgent{Message: &api.FromAgent_Csr{Csr: request}}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(answerTime):
		return errNotSigned
	case issued := <-s.issued:
		if issued.GetError() != "" {
			return errors.New(issued.GetError())
		}
		return s.link.contact.Certificate.Accept(issued.GetCertificate(), issued.GetBundle())
	}
}
