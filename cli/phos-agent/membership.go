package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/internal/linux/privatefile"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// membership is what makes this machine a node of a cluster. It is kept in a file for root alone.
type membership struct {
	Version     int      `json:"version"`
	Cluster     string   `json:"cluster"`
	Node        string   `json:"node"`
	Controllers []string `json:"controllers"`
	// Certificate, Key and Bundle are PEM.
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Bundle      string `json:"bundle"`
}

// membershipVersion is the version that this program writes.
const membershipVersion = 1

// membershipName is the file in the state directory.
const membershipName = "membership.json"

// errNoMember means that this machine is no node yet.
var errNoMember = errors.New("this machine is no node of a cluster: join one with phos-agent join TOKEN@HOST:PORT")

// load reads the membership.
func (o *options) load() (m membership, err error) {
	text, err := os.ReadFile(filepath.Join(o.stateDir, membershipName))
	if errors.Is(err, os.ErrNotExist) {
		return m, errNoMember
	}
	if err != nil {
		return m, fmt.Errorf("membership: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("membership: %w", err)
	}
	if m.Version > membershipVersion {
		return m, fmt.Errorf("membership of version %d: a newer phos-agent has written it", m.Version)
	}
	return m, nil
}

// save keeps the membership.
func (o *options) save(m membership) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return privatefile.Write(filepath.Join(o.stateDir, membershipName), append(text, '\n'))
}

// keep keeps the next certificate, and the CAs that are trusted.
func (o *options) keep(certificate *x509.Certificate, trusted authority.Bundle) error {
	return o.change(func(m *membership) {
		m.Certificate, m.Bundle = certificateText(certificate.Raw), string(trusted.PEM())
	})
}

// changing is held while the membership is changed.
var changing sync.Mutex

// change changes the membership that is kept.
func (o *options) change(change func(*membership)) error {
	changing.Lock()
	defer changing.Unlock()
	m, err := o.load()
	if err != nil {
		return err
	}
	change(&m)
	return o.save(m)
}

// certificateText returns a certificate as PEM.
func certificateText(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// saveControllers keeps the addresses of the controllers.
func (o *options) saveControllers(all []string) error {
	return o.change(func(m *membership) { m.Controllers = all })
}

// holder returns what this node shows and trusts.
func (m *membership) holder() (*channel.Holder, error) {
	pair, err := tls.X509KeyPair([]byte(m.Certificate), []byte(m.Key))
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	bundle, err := authority.ParseBundle([]byte(m.Bundle))
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	return channel.NewHolder(&pair, bundle), nil
}

// joinTime is how long joining may take.
const joinTime = 30 * time.Second

// join makes this machine a node.
func (o *options) join(ctx context.Context, text string) error {
	presented, err := token.ParseJoin(text, time.Now())
	if err != nil {
		return err
	}
	if o.node == "" {
		if o.node, err = os.Hostname(); err != nil {
			return err
		}
	}
	if err := identity.CheckNodeName(o.node); err != nil {
		return err
	}
	if err := os.MkdirAll(o.stateDir, 0o711); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	boot, err := proc.BootID()
	if err != nil {
		return err
	}
	key, err := authority.NewKey()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	reply, err := o.askToJoin(ctx, presented, text, key, boot)
	if err != nil {
		return fmt.Errorf("join as %s: %w", o.node, err)
	}
	made, err := newMembership(o.node, reply, key)
	if err != nil {
		return err
	}
	if err := o.save(made); err != nil {
		return err
	}
	fmt.Printf("joined cluster %s as node %s\n", reply.GetClusterId(), o.node)
	return nil
}

// askToJoin asks the controllers of a token, one after the other, until one has answered.
func (o *options) askToJoin(
	ctx context.Context, presented token.Join, text string, key *ecdsa.PrivateKey, boot string,
) (reply *api.JoinReply, err error) {
	tls := credentials.NewTLS(channel.FirstContact(presented.CA, time.Now))
	for _, address := range presented.Addresses {
		var conn *grpc.ClientConn
		if conn, err = grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(tls)); err != nil {
			return nil, err
		}
		reply, err = o.askOne(ctx, api.NewAgentsClient(conn), text, key, boot)
		_ = conn.Close()
		if err == nil || !errors.Is(err, api.ErrUnavailable) {
			return reply, err
		}
	}
	return nil, err
}

// askOne asks one controller. The request for a certificate names the cluster, which the
// controller's certificate has said: a first call without a request gets it.
func (o *options) askOne(
	ctx context.Context, client api.AgentsClient, text string, key *ecdsa.PrivateKey, boot string,
) (*api.JoinReply, error) {
	about, err := client.About(ctx, &api.AboutRequest{})
	if err != nil {
		return nil, api.FromStatus(err)
	}
	subject := identity.Subject{Cluster: identity.ClusterID(about.GetClusterId()), Kind: identity.Node, Name: o.node}
	request, err := authority.NewRequest(subject, key)
	if err != nil {
		return nil, err
	}
	reply, err := client.Join(ctx, &api.JoinRequest{Token: text, Name: o.node, Csr: request, BootId: boot})
	return reply, api.FromStatus(err)
}

// newMembership returns what is kept of a controller's answer.
func newMembership(node string, reply *api.JoinReply, key *ecdsa.PrivateKey) (membership, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return membership{}, err
	}
	return membership{
		Version: membershipVersion, Cluster: reply.GetClusterId(), Node: node, Controllers: reply.GetControllers(),
		Certificate: certificateText(reply.GetCertificate()),
		Key:         string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		Bundle:      string(reply.GetBundle()),
	}, nil
}
