package reach

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/api/apitest"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

func find(t *testing.T, socket string, environment map[string]string) (api.Endpoints, error) {
	t.Helper()
	return Finder{func(name string) string { return environment[name] }, socket}.Find()
}

func TestFind(t *testing.T) {
	none, here := filepath.Join(t.TempDir(), "none"), apitest.New(t).Listen(t).Socket
	for _, test := range []struct {
		socket, variable string
		address, err     string
	}{
		{none, "", "", "pos_cli --start --target cluster"},
		{here, "", here, ""},
		{here, "/run/other.sock", "/run/other.sock", ""},
		{none, "unix:/run/other.sock", "/run/other.sock", ""},
		{here, "far:7411", "", "no token for it"},
		{here, "far", "", "want HOST:PORT"},
		{here, ":7411", "", "want HOST:PORT"},
	} {
		got, err := find(t, test.socket, map[string]string{api.ClusterVariable: test.variable, "HOME": t.TempDir()})
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%+v: error %v", test, err)
			}
			continue
		}
		if err != nil || got.Addresses[0] != test.address {
			t.Errorf("%+v: %v, %v", test, got.Addresses, err)
		}
	}
	if _, err := find(t, none, nil); !errors.Is(err, ErrNoCluster) {
		t.Errorf("without a home: %v", err)
	}
}

// TestBrokenFile: a file that cannot be used is an error, and not as if there were none.
func TestBrokenFile(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "phos", "cluster.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, filepath.Join(home, "none"), map[string]string{"HOME": home}); err == nil ||
		errors.Is(err, ErrNoCluster) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

// TestForeignHome: a caller that cannot look into its home, as after su without -, needs no file
// where the controller's socket is, and is told of it elsewhere.
func TestForeignHome(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".config"), 0); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "reach")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	look := func(socket string) (err error) {
		_, err = find(t, socket, map[string]string{"HOME": home})
		return err
	}
	if os.Getuid() == 0 {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		asRoot := look
		look = func(socket string) (err error) {
			return fsuid.Rights{UID: 65534, GID: 65534}.Do(func() error { return asRoot(socket) })
		}
	}
	if err := look(socket); err != nil {
		t.Errorf("with the controller's socket: %v", err)
	}
	if err := look(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without it: %v", err)
	}
}
