package access

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/token"
	"github.com/phos-gpu/phos/cluster/identity/versioned"
	"github.com/phos-gpu/phos/internal/linux/privatefile"
	"github.com/phos-gpu/phos/tests/golden"
)

const cluster identity.ClusterID = "abcdefghijkl2345"

var now = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// newAccess makes the access of a user to a new cluster.
func newAccess(t testing.TB) Access {
	t.Helper()
	ring, err := authority.NewRing(cluster, now)
	if err != nil {
		t.Fatal(err)
	}
	admin := identity.Caller{Kind: identity.Local, Name: "root", Account: "root", Role: identity.RoleAdmin}
	spec := token.UserSpec{Name: "laptop", Account: "alice", Role: identity.RoleUser}
	user, _, err := token.NewUser(rand.Reader, now, admin, spec)
	if err != nil {
		t.Fatal(err)
	}
	return Access{[]string{"c1.example.org:7443", "[2001:db8::1]:7443"}, ring.Bundle(), user}
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "phos", "cluster.json")
	want := newAccess(t)
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
	got, err := Load(path)
	if err != nil || got.Token != want.Token || !reflect.DeepEqual(got.Addresses, want.Addresses) ||
		string(got.Bundle.PEM()) != string(want.Bundle.PEM()) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, privatefile.ErrExposed) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v, want ErrExposed with what to do", err)
	}
	if _, err := Load(path + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
}

// TestCommittedFile: a file of a version that was released can be read.
func TestCommittedFile(t *testing.T) {
	const committed = "testdata/cluster.json"
	text, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	a, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cluster.json")
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, committed, again)
}

func TestSaveRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.json")
	a := newAccess(t)
	a.Addresses = nil
	if err := a.Save(path); err == nil {
		t.Error("a file without addresses was written")
	}
	if err := (Access{Addresses: []string{"a:1"}}).Save(path); err == nil {
		t.Error("a file without a CA was written")
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want no file", err)
	}
}

func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.json")
	a := newAccess(t)
	if err := a.Save(path); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(map[string]any)
		want   error
		says   string
	}{
		"newer":             {func(f map[string]any) { f["version"] = 2 }, versioned.ErrNewer, "version 2"},
		"newer and unknown": {func(f map[string]any) { f["version"], f["proxy"] = 2, "x" }, versioned.ErrNewer, "version 2"},
		"unknown":           {func(f map[string]any) { f["proxy"] = "x" }, versioned.ErrDamaged, "proxy"},
		"no version":        {func(f map[string]any) { delete(f, "version") }, versioned.ErrDamaged, "no version"},
		"no address":        {func(f map[string]any) { f["addresses"] = []string{} }, nil, "addresses"},
		"a bad address":     {func(f map[string]any) { f["addresses"] = []string{"c1"} }, nil, "want HOST:PORT"},
		"no CA":             {func(f map[string]any) { delete(f, "ca") }, authority.ErrBundle, "ca"},
		"another cluster":   {func(f map[string]any) { f["cluster"] = "zzzzzzzzzzzz2345" }, identity.ErrOtherCluster, "ca"},
		"no token":          {func(f map[string]any) { f["token"] = "" }, token.ErrMistyped, "token"},
		"a mistyped token":  {func(f map[string]any) { f["token"] = a.Token.Text()[:45] + "1" }, token.ErrMistyped, "token"},
		"a newer token":     {func(f map[string]any) { f["token"] = "phos_2x" }, token.ErrVersion, "token"},
	} {
		var fields map[string]any
		if err := json.Unmarshal(good, &fields); err != nil {
			t.Fatal(err)
		}
		test.change(fields)
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := privatefile.Write(path, text); err != nil {
			t.Fatal(err)
		}
		_, err = Load(path)
		if err == nil || test.want != nil && !errors.Is(err, test.want) ||
			!strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v, %q", name, err, test.want, test.says)
		} else if strings.Contains(err.Error(), a.Token.Text()[20:40]) {
			t.Errorf("%s: the error shows the token: %v", name, err)
		}
	}
}

func TestPath(t *testing.T) {
	for _, test := range []struct {
		config, home, want string
		err                error
	}{
		{"", "/home/alice", "/home/alice/.config/phos/cluster.json", nil},
		{"/etc/xdg", "/home/alice", "/etc/xdg/phos/cluster.json", nil},
		{"relative", "/home/alice", "/home/alice/.config/phos/cluster.json", nil},
		{"", "", "", ErrNoHome},
		{"", "home", "", ErrNoHome},
	} {
		got, err := Path(func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": test.config, "HOME": test.home}[name]
		})
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q, %q: %q, %v, want %q, %v", test.config, test.home, got, err, test.want, test.err)
		}
	}
}

// FuzzFile checks that a file that was accepted can be written and read.
func FuzzFile(f *testing.F) {
	text, err := os.ReadFile("testdata/cluster.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"addresses":["a:1"]}`))
	path := filepath.Join(f.TempDir(), "cluster.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := decode(text)
		if err != nil {
			return
		}
		if err := a.Save(path); err != nil {
			t.Fatal(err)
		}
		if again, err := Load(path); err != nil || again.Token != a.Token {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}
