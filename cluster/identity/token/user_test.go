package token

import (
	"bytes"
	"crypto/rand"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/versioned"
	"github.com/phos-gpu/phos/tests/golden"
)

func TestUser(t *testing.T) {
	u, r := newUser(t)
	if got, err := ParseUser(u.Text()); err != nil || got != u {
		t.Fatalf("%v, %v", got, err)
	}
	if !strings.HasPrefix(u.Text(), "phos_") {
		t.Error(u.Text())
	}
	golden.Check(t, "testdata/user.txt", []byte(u.Text()+"\n"))
	text, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/user.json", text)
	if again, err := UnmarshalUser(text); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%+v, %v, want %+v", again, err, r)
	}
	if bytes.Contains(text, []byte(u.Text()[14:])) {
		t.Error("the record holds the secret")
	}
}

func TestVerifyUser(t *testing.T) {
	u, r := newUser(t)
	want := identity.Caller{Kind: identity.User, Name: "laptop", Account: "alice", Role: identity.RoleUser}
	if got, err := r.Verify(u.Secret, now.Add(24*time.Hour-1)); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := r.Verify(u.Secret, now.Add(24*time.Hour)); !errors.Is(err, ErrExpired) || got != (identity.Caller{}) {
		t.Errorf("%+v, %v, want ErrExpired", got, err)
	}
	for i := range u.Secret {
		wrong := u.Secret
		wrong[i] ^= 0x80
		if got, err := r.Verify(wrong, now.Add(48*time.Hour)); !errors.Is(err, ErrRefused) || got != (identity.Caller{}) {
			t.Errorf("%+v, %v, want ErrRefused", got, err)
		}
	}
	r.Expires = time.Time{}
	if _, err := r.Verify(u.Secret, now.AddDate(100, 0, 0)); err != nil {
		t.Errorf("a token without end: %v", err)
	}
}

// TestWhatMakersMayGive: no token gives more than its maker has.
func TestWhatMakersMayGive(t *testing.T) {
	root := identity.Caller{Kind: identity.Local, Name: "root", Account: "root", Role: identity.RoleAdmin}
	localWithRoot := local
	localWithRoot.AllowRoot = true
	spec := func(account string, role identity.Role, allowRoot bool) UserSpec {
		return UserSpec{Name: "new", Account: account, Role: role, AllowRoot: allowRoot}
	}
	for _, test := range []struct {
		maker identity.Caller
		spec  UserSpec
		want  error
	}{
		{admin, spec("bob", identity.RoleAdmin, true), nil},
		{root, spec("bob", identity.RoleViewer, false), nil},
		{local, spec("alice", identity.RoleUser, false), nil},
		{local, spec("alice", identity.RoleUser, true), ErrTooMuch},
		{localWithRoot, spec("alice", identity.RoleUser, true), ErrTooMuch},
		{local, spec("alice", identity.RoleAdmin, false), ErrTooMuch},
		{local, spec("alice", identity.RoleViewer, false), ErrTooMuch},
		{local, spec("bob", identity.RoleUser, false), identity.ErrForbidden},
		{local, spec("root", identity.RoleUser, false), identity.ErrForbidden},
		{remote, spec("alice", identity.RoleUser, false), identity.ErrForbidden},
		{viewer, spec("alice", identity.RoleUser, false), identity.ErrForbidden},
		{node, spec("alice", identity.RoleUser, false), identity.ErrForbidden},
		{identity.Caller{}, spec("", identity.RoleUser, false), identity.ErrForbidden},
		{admin, spec("0", identity.RoleUser, false), identity.ErrBadName},
		{admin, spec("alice", "king", false), identity.ErrBadName},
	} {
		u, r, err := NewUser(rand.Reader, now, test.maker, test.spec)
		if !errors.Is(err, test.want) || (err == nil) != (r.Version != 0) || (err == nil) != (u.ID != "") {
			t.Errorf("%v makes %+v: %v, want %v", test.maker, test.spec, err, test.want)
		}
	}
	for name, change := range map[string]func(*UserSpec){
		"no name":      func(s *UserSpec) { s.Name = "" },
		"a long name":  func(s *UserSpec) { s.Name = strings.Repeat("a", 65) },
		"a bad name":   func(s *UserSpec) { s.Name = "a\x1b[31m" },
		"a hidden one": func(s *UserSpec) { s.Name = "a\u2066b" },
		"no text":      func(s *UserSpec) { s.Name = "\xff" },
		"a past time":  func(s *UserSpec) { s.Lifetime = -1 },
		"a short time": func(s *UserSpec) { s.Lifetime = 1 },
	} {
		s := spec("alice", identity.RoleUser, false)
		change(&s)
		if _, _, err := NewUser(rand.Reader, now, admin, s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBearer(t *testing.T) {
	u, _ := newUser(t)
	for _, header := range []string{u.Bearer(), "bearer " + u.Text(), "BEARER   " + u.Text() + " "} {
		if got, err := ParseBearer(header); err != nil || got != u {
			t.Errorf("%v, %v", got, err)
		}
	}
	for header, want := range map[string]error{
		"": ErrKind, u.Text(): ErrKind, "Basic " + u.Text(): ErrKind, "Bearer": ErrMistyped, "Bearer x": ErrMistyped,
		"Bearer " + u.Text() + " " + u.Text(): ErrMistyped, "Bearer\t" + u.Text(): ErrKind,
	} {
		if got, err := ParseBearer(header); !errors.Is(err, want) || got != (User{}) {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
}

// TestDamagedRecords changes one field of each record.
func TestDamagedRecords(t *testing.T) {
	_, join := newJoin(t, joinSpec())
	_, user := newUser(t)
	joinText, err1 := join.Marshal()
	userText, err2 := user.Marshal()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, replacement string }{
		{`"version": 1`, `"version": 0`},
		{join.ID, "AAAAAAAA"},
		{join.ID, "aaaaaaa"},
		{`"secret_sha256": "`, `"secret_sha256": "00`},
		{`"secret_sha256": "6b`, `"secret_sha256": "zz`},
		{`"secret_sha256"`, `"sha256"`},
		{`"maker": "admin`, `"maker": "\u0007`},
		{`"made": "2027-`, `"made": "2O27-`},
		{`"uses_left": 2`, `"uses_left": -2`},
		{`"uses_left": 2`, `"uses_left": 20000`},
		{`"rack"`, `"ra ck"`},
		{`"account": "alice"`, `"account": "1000"`},
		{`"role": "user"`, `"role": "root"`},
		{`"name": "laptop"`, `"name": ""`},
	} {
		changed := 0
		for _, each := range []struct {
			text []byte
			read func([]byte) error
		}{
			{joinText, func(text []byte) error { _, err := UnmarshalJoin(text); return err }},
			{userText, func(text []byte) error { _, err := UnmarshalUser(text); return err }},
		} {
			bad := strings.Replace(string(each.text), test.old, test.replacement, 1)
			if bad == string(each.text) {
				continue
			}
			changed++
			if err := each.read([]byte(bad)); !errors.Is(err, versioned.ErrDamaged) {
				t.Errorf("%s for %s: %v, want ErrDamaged", test.replacement, test.old, err)
			}
		}
		if changed == 0 {
			t.Errorf("no record holds %s", test.old)
		}
	}
	newer := strings.Replace(string(userText), `"version": 1`, `"version": 2`, 1)
	if _, err := UnmarshalUser([]byte(newer)); !errors.Is(err, versioned.ErrNewer) {
		t.Errorf("%v, want ErrNewer", err)
	}
}
