package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/internal/linux/privatefile"
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
