package channel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/cluster/identity"
)

// ErrNotNode means that another member of the cluster poses as a node, or as another node.
var ErrNotNode = errors.New("not the node that is wanted")

// PeerServer returns the settings of a node for connections from other nodes. PeerOf says which one
// is behind a connection.
func PeerServer(source Source, clock Clock) *tls.Config {
	config := peerBase(clock)
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		certificate := source.Certificate()
		if certificate == nil {
			return nil, ErrNoCertificate
		}
		bundle := source.Bundle()
		current := peerBase(clock)
		current.Certificates = []tls.Certificate{*certificate}
		current.ClientAuth = tls.RequireAndVerifyClientCert
		current.ClientCAs = bundle.Pool()
		current.VerifyConnection = func(state tls.ConnectionState) error {
			_, err := PeerOf(bundle.Cluster(), state)
			return err
		}
		return current, nil
	}
	return config
}

// PeerOf returns the node at the other end of a connection to a node.
func PeerOf(cluster identity.ClusterID, state tls.ConnectionState) (identity.Caller, error) {
	caller, err := OfConnection(cluster, state)
	if err == nil && caller.Kind != identity.Node {
		err = fmt.Errorf("%w: it is the %s", ErrNotNode, caller)
	}
	return caller, err
}

// PeerClient returns the settings of a node that connects to another one. A certificate of a node
// is for clients; here the node that is called shows it as a server, and its name and key are
// compared: an earlier node may have had the name.
func PeerClient(source Source, clock Clock, node string, key string) *tls.Config {
	config := connecting(clock, func(shown []*x509.Certificate) error {
		caller, err := source.Bundle().VerifyClient(shown, clock())
		if err == nil && (caller.Kind != identity.Node || caller.Name != node || caller.Key.String() != key) {
			err = fmt.Errorf("%w: node %s with key %s is wanted, and it is the %s with key %s",
				ErrNotNode, node, key, caller, caller.Key)
		}
		return err
	})
	config.NextProtos = peerProtocols
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if certificate := source.Certificate(); certificate != nil {
			return certificate, nil
		}
		return nil, ErrNoCertificate
	}
	return config
}

// peerProtocols are those between nodes. HTTP/2 is slower for one large body.
var peerProtocols = []string{"http/1.1"}

// peerBase has what both settings share.
func peerBase(clock Clock) *tls.Config {
	config := base(clock)
	config.NextProtos = peerProtocols
	return config
}
