package channel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
)

// Clock tells the time: time.Now, but for tests.
type Clock func() time.Time

// ErrNoCertificate means that a server has no certificate to show.
var ErrNoCertificate = errors.New("this controller has no certificate")

// base has what all settings share.
func base(clock Clock) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Time:                   clock,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2", "http/1.1"}, // gRPC, and browsers
	}
}

// Server returns the settings of a controller. OfConnection says which client is behind a
// connection.
func Server(source Source, clock Clock) *tls.Config {
	config := base(clock)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		certificate := source.Certificate()
		if certificate == nil {
			return nil, ErrNoCertificate
		}
		bundle := source.Bundle()
		current := base(clock)
		current.Certificates = []tls.Certificate{*certificate}
		current.ClientAuth = tls.VerifyClientCertIfGiven
		current.ClientCAs = bundle.Pool()
		current.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return nil // a user: the request has a token
			}
			_, err := OfConnection(bundle.Cluster(), state)
			return err
		}
		return current, nil
	}
	return config
}

// OfConnection returns the node or controller at the other end of a connection to a controller. The
// error is identity.ErrUnverified if the client has shown no certificate: it may have a token.
func OfConnection(cluster identity.ClusterID, state tls.ConnectionState) (identity.Caller, error) {
	return identity.OfCertificate(cluster, state.VerifiedChains)
}

// Client returns the settings of a node, a user, or a controller that calls another one.
func Client(source Source, clock Clock) *tls.Config {
	config := connecting(clock, func(shown []*x509.Certificate) error {
		bundle := source.Bundle()
		_, err := bundle.VerifyController(shown, clock())
		if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
			return fmt.Errorf("the server at this address is %w, or not a controller of %s: %w",
				identity.ErrOtherCluster, bundle.Cluster(), err)
		}
		return err
	})
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if certificate := source.Certificate(); certificate != nil {
			return certificate, nil
		}
		return &tls.Certificate{}, nil // none is shown
	}
	return config
}

// FirstContact returns the settings of an agent that joins by a token. The controller must show the
// CA with this fingerprint, and a certificate by it. The agent sends the secret of the token only
// after that. The error is identity.ErrOtherCluster if the CA is another one.
func FirstContact(ca identity.Fingerprint, clock Clock) *tls.Config {
	return connecting(clock, func(shown []*x509.Certificate) error {
		for _, each := range shown {
			if identity.FingerprintOf(each) != ca {
				continue
			}
			bundle, err := authority.NewBundle(each)
			if err == nil {
				_, err = bundle.VerifyController(shown, clock())
			}
			return err
		}
		return fmt.Errorf("the token is %w than the server at this address, or its CA was replaced "+
			"since the token was made; make a new token on a controller", identity.ErrOtherCluster)
	})
}

// connecting returns the settings of a client that verifies what a server has shown by itself. The
// verification of crypto/tls wants CAs that do not change and the server's address, and has
// neither; verify runs in each handshake, and none succeeds without it.
func connecting(clock Clock, verify func(shown []*x509.Certificate) error) *tls.Config {
	config := base(clock)
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error { return verify(state.PeerCertificates) }
	return config
}
