package peers

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var three = map[string]netip.Addr{
	"a": netip.MustParseAddr("10.0.0.1"), "b": netip.MustParseAddr("10.0.0.2"), "c": netip.MustParseAddr("fd00::3"),
}

// TestMake: each controller has what it needs, in files that only their owner reads. openssl
// checks the certificates as others would.
func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peers")
	made, err := Make(dir, three, time.Now())
	if err != nil || !made.CA || !slices.Equal(made.New, []string{"a", "b", "c"}) {
		t.Fatalf("got %+v, %v", made, err)
	}
	for name, address := range three {
		for _, file := range []string{CAFile, CertFile, KeyFile} {
			info, err := os.Stat(filepath.Join(dir, name, file))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v", file, info, err)
			}
		}
		if _, err := exec.LookPath("openssl"); err != nil {
			continue
		}
		out, err := exec.Command("openssl", "verify", "-CAfile", filepath.Join(dir, name, CAFile),
			"-purpose", "sslserver", "-verify_ip", address.String(), filepath.Join(dir, name, CertFile)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}

// TestMakeAgain: what is there stays, and one more controller gets a certificate of the same CA.
func TestMakeAgain(t *testing.T) {
	dir := t.TempDir()
	if _, err := Make(dir, three, time.Now()); err != nil {
		t.Fatal(err)
	}
	before := read(t, filepath.Join(dir, "a", CertFile))
	made, err := Make(dir, map[string]netip.Addr{"a": three["a"], "d": netip.MustParseAddr("10.0.0.4")}, time.Now())
	if err != nil || made.CA || !slices.Equal(made.New, []string{"d"}) {
		t.Fatalf("got %+v, %v", made, err)
	}
	if after := read(t, filepath.Join(dir, "a", CertFile)); string(after) != string(before) {
		t.Error("the certificate of a has changed")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(t, filepath.Join(dir, "a", CAFile)))
	block, _ := pem.Decode(read(t, filepath.Join(dir, "d", CertFile)))
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: pool}); err != nil {
		t.Error(err)
	}
}

func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	if _, err := Make(dir, nil, time.Now()); err == nil {
		t.Error("no controllers were accepted")
	}
	if _, err := Make(dir, three, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, caKeyFile), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(dir, three, time.Now()); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
