package reach

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/access"
	"github.com/phos-gpu/phos/cluster/identity/channel"
)

// ErrNoCluster means that no cluster is known here.
var ErrNoCluster = errors.New("no cluster")

// Finder finds the cluster.
type Finder struct {
	// Getenv is os.Getenv.
	Getenv func(string) string
	// Socket is where a controller on this machine listens.
	Socket string
}

// Connect returns a client of the cluster that the environment means. Nothing is sent before the
// first request. The error is ErrNoCluster if there is none.
func Connect() (*api.Client, error) { return ConnectWithin(api.Patience) }

// ConnectWithin is Connect with a time after which requests fail while no controller answers.
func ConnectWithin(patience time.Duration) (*api.Client, error) {
	endpoints, err := Finder{os.Getenv, api.ControllerSocket}.Find()
	if err != nil {
		return nil, err
	}
	endpoints.Patience = patience
	return api.Connect(endpoints), nil
}

// Find returns where the cluster is.
func (f Finder) Find() (api.Endpoints, error) {
	named := strings.TrimPrefix(f.Getenv(api.ClusterVariable), "unix:")
	saved, err := f.saved()
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, access.ErrNoHome)
	here := filepath.IsAbs(named) || named == "" && f.controllerHere()
	unreadable := here && errors.Is(err, fs.ErrPermission) // another account's home, and not needed here
	if err != nil && !missing && !unreadable {
		return api.Endpoints{}, err
	}
	switch {
	case filepath.IsAbs(named):
		saved.Addresses = []string{named}
	case named != "":
		if host, port, err := net.SplitHostPort(named); err != nil || host == "" || port == "" {
			return api.Endpoints{}, fmt.Errorf("%s is %q: want HOST:PORT, or the absolute path of a socket",
				api.ClusterVariable, named)
		}
		if missing {
			return api.Endpoints{}, fmt.Errorf("%w: %s is %s, but there is no token for it: an administrator makes one with "+
				"phos user add, and phos login keeps it", ErrNoCluster, api.ClusterVariable, named)
		}
		saved.Addresses = []string{named}
	case f.controllerHere():
		saved.Addresses = []string{f.Socket}
	case missing:
		return api.Endpoints{}, fmt.Errorf("%w: no controller listens at %s, and there is no file cluster.json; "+
			"pos_cli --start --target cluster makes this machine a cluster, and "+
			"phos login HOST:PORT uses another with a token, and "+
			"pos_cli --start --target agent --join TOKEN@HOST:PORT makes it a node of one", ErrNoCluster, f.Socket)
	}
	return saved, nil
}

// controllerHere reports whether this machine has a controller's socket. One that a controller has
// left behind counts: the controller may be about to start again.
func (f Finder) controllerHere() bool {
	info, err := os.Lstat(f.Socket)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

// saved returns what the user's file has.
func (f Finder) saved() (api.Endpoints, error) {
	path, err := access.Path(f.Getenv)
	if err != nil {
		return api.Endpoints{}, err
	}
	a, err := access.Load(path)
	if err != nil {
		return api.Endpoints{}, err
	}
	return api.Endpoints{
		Addresses: a.Addresses,
		TLS:       channel.Client(channel.NewHolder(nil, a.Bundle), time.Now),
		Bearer:    a.Token.Bearer(),
	}, nil
}
