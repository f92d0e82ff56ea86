package peers

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/phos-gpu/phos/internal/linux/privatefile"
)

// Names of the files of a controller.
const (
	CAFile   = "ca.crt"
	CertFile = "member.crt"
	KeyFile  = "member.key"
)

// caKeyFile is the key of the CA in the folder of all.
const caKeyFile = "ca.key"

// Made is what Make has made.
type Made struct {
	// New are the controllers that have got a certificate; those that had one keep it.
	New []string
	// CA reports whether the CA is new.
	CA bool
}

// Make makes a folder with the CA and a certificate for each of the controllers, which are named
// with their addresses. What is there already stays: call it again with one more name to replace a
// controller.
func Make(dir string, addresses map[string]netip.Addr, now time.Time) (made Made, err error) {
	if len(addresses) == 0 {
		return made, errors.New("name at least one controller")
	}
	ca, err := openCA(dir)
	if errors.Is(err, os.ErrNotExist) {
		made.CA = true
		ca, err = makeCA(dir, now)
	}
	if err != nil {
		return made, err
	}
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		folder := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(folder, CertFile)); err == nil {
			continue
		}
		if err := ca.issue(folder, name, addresses[name], now); err != nil {
			return made, fmt.Errorf("certificate of controller %s: %w", name, err)
		}
		made.New = append(made.New, name)
	}
	return made, nil
}

// issue writes the files of a controller. The certificate comes last: a folder with one is whole.
func (ca *ca) issue(folder, name string, address netip.Addr, now time.Time) error {
	key, keyText, err := newKey()
	if err != nil {
		return err
	}
	certificate, err := ca.sign(memberTemplate(name, address, now), key.Public())
	if err != nil {
		return err
	}
	for _, each := range []struct {
		name string
		text []byte
	}{{CAFile, ca.text}, {KeyFile, keyText}, {CertFile, certificate}} {
		if err := privatefile.Write(filepath.Join(folder, each.name), each.text); err != nil {
			return err
		}
	}
	return nil
}
