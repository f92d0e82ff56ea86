package access

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/cluster/identity/versioned"
	"github.com/phos-gpu/phos/internal/linux/privatefile"
)

// Access is what a user needs to reach a cluster.
type Access struct {
	// Addresses are those of controllers, HOST:PORT. Any of them will do.
	Addresses []string
	// Bundle is the CAs by which the controllers are known.
	Bundle authority.Bundle
	Token  token.User
}

// record is an Access as the file has it.
type record struct {
	Version   int                `json:"version"`
	Cluster   identity.ClusterID `json:"cluster"`
	Addresses []string           `json:"addresses"`
	CA        string             `json:"ca"`
	Token     string             `json:"token"`
}

// version is that of the newest record.
const version = 1

// ErrNoHome means that the place of the file is unknown.
var ErrNoHome = errors.New("neither XDG_CONFIG_HOME nor HOME is an absolute path")

// Path returns where the file is. getenv is os.Getenv.
func Path(getenv func(string) string) (string, error) {
	folder := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(folder) { // as its specification says
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", ErrNoHome
		}
		folder = filepath.Join(home, ".config")
	}
	return filepath.Join(folder, "phos", "cluster.json"), nil
}

// Save writes the file with mode 0600, and makes its folder.
func (a Access) Save(path string) error {
	text, err := versioned.Encode(record{
		Version: version, Cluster: a.Bundle.Cluster(), Addresses: a.Addresses, CA: string(a.Bundle.PEM()),
		Token: a.Token.Text(),
	})
	if err != nil {
		return err
	}
	if _, err := decode(text); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return privatefile.Write(path, text)
}

// Load reads the file. The error is fs.ErrNotExist, privatefile.ErrExposed if others can read it,
// versioned.ErrNewer if a newer phos has written it, or says what is wrong in it.
func Load(path string) (Access, error) {
	text, err := privatefile.Read(path, versioned.MaxBytes)
	if err != nil {
		return Access{}, err
	}
	a, err := decode(text)
	if err != nil {
		return Access{}, fmt.Errorf("read %s: %w", path, err)
	}
	return a, nil
}

// decode reads the text of a file.
func decode(text []byte) (a Access, err error) {
	var r record
	if err := versioned.Decode(text, version, &r); err != nil {
		return Access{}, err
	}
	if err := token.CheckAddresses(r.Addresses); err != nil {
		return Access{}, fmt.Errorf("addresses: %w", err)
	}
	a.Addresses = r.Addresses
	if a.Bundle, err = authority.ParseBundle([]byte(r.CA)); err != nil {
		return Access{}, fmt.Errorf("ca: %w", err)
	}
	if a.Bundle.Cluster() != r.Cluster {
		return Access{}, fmt.Errorf("ca: it is %w, %s", identity.ErrOtherCluster, a.Bundle.Cluster())
	}
	if a.Token, err = token.ParseUser(r.Token); err != nil {
		return Access{}, fmt.Errorf("token: %w", err)
	}
	return a, nil
}
