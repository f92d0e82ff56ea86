package phosd

import (
	"os"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
)

// inFlight is a request that counts in its user's quota until done is called.
type inFlight struct {
	daemon *Daemon
	caller api.Caller
	// flight is the request itself, held its files.
	flight, held *quota.Claim
	files        []*os.File
}

// track counts a request, or refuses it. It comes before anything that the request makes phosd do.
// The files of a refused request are closed; token names them, if there are any.
func (d *Daemon) track(caller api.Caller, token []byte) (*inFlight, error) {
	flight, err := d.quota.Take(caller.UID, quota.Requests, 1)
	if err != nil {
		d.tokens.Drop(token, caller)
		return nil, err
	}
	flight.By(caller.Process)
	return &inFlight{daemon: d, caller: caller, flight: flight}, nil
}

// take returns the files that the caller has handed off under a token. They stay open until done
// or closeFiles is called.
func (r *inFlight) take(token []byte) (files []*os.File, err error) {
	if r.files, err = r.daemon.takeFiles(token, r.caller); err != nil {
		return nil, err
	}
	if r.held, err = r.daemon.quota.Take(r.caller.UID, quota.Files, uint64(len(r.files))); err != nil {
		return nil, err
	}
	r.held.By(r.caller.Process)
	return r.files, nil
}

// closeFiles closes the files of the request.
func (r *inFlight) closeFiles() {
	fdpass.Close(r.files)
	r.files = nil
	if r.held != nil {
		r.held.Release()
	}
}

// follow turns the request into one that waits for the end of a restored program. Such a request
// holds little, and may last for days.
func (r *inFlight) follow() error {
	r.closeFiles()
	followed, err := r.daemon.quota.Take(r.caller.UID, quota.Followed, 1)
	if err != nil {
		return err
	}
	followed.By(r.caller.Process)
	r.flight.Release()
	r.flight = followed
	return nil
}

// done ends the request.
func (r *inFlight) done() {
	r.closeFiles()
	r.flight.Release()
}
