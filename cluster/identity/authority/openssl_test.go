package authority

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOpenSSLAgrees asks another implementation of X.509 whether certificates are valid, for what,
// and when.
func TestOpenSSLAgrees(t *testing.T) {
	folder := t.TempDir()
	ca, other := newCA(t, cluster), newCA(t, cluster)
	file(t, folder, "ca.pem", ca.certificate)
	file(t, folder, "other.pem", other.certificate)
	file(t, folder, "both.pem", other.certificate, ca.certificate)
	file(t, folder, "node.pem", newNode(t, ca, "gpu1").Certificate)
	file(t, folder, "controller.pem", newController(t, ca, "c1").Certificate)
	for _, test := range []struct {
		trusted, certificate string
		flags                string
		at                   time.Time
		says                 string // of an error; empty: it is valid
	}{
		{"ca", "node", "-purpose sslclient", now, ""},
		{"ca", "node", "-purpose sslserver", now, "unsuitable certificate purpose"},
		{"ca", "controller", "-purpose sslserver", now, ""},
		{"ca", "controller", "-purpose sslclient", now, ""},
		{"ca", "controller", "-purpose sslserver -verify_hostname controller.abcdefghijkl2345.phos.internal", now, ""},
		{"ca", "controller", "-purpose sslserver -verify_hostname c1.example.org", now, ""},
		{"ca", "controller", "-purpose sslserver -verify_ip 192.0.2.7", now, ""},
		{"ca", "controller", "-purpose sslserver -verify_ip 2001:db8::1", now, ""},
		{"ca", "controller", "-purpose sslserver -verify_hostname c2.example.org", now, "hostname mismatch"},
		{"ca", "node", "-verify_hostname controller.abcdefghijkl2345.phos.internal", now, "hostname mismatch"},
		{"ca", "ca", "", now.AddDate(10, 0, -1), ""},
		{"ca", "ca", "", now.AddDate(10, 0, 1), "has expired"},
		{"both", "node", "-purpose sslclient", now, ""},
		{"other", "node", "-purpose sslclient", now, "unable to get local issuer certificate"},
		// Clocks that are behind by up to an hour.
		{"ca", "node", "-purpose sslclient", now.Add(-59 * time.Minute), ""},
		{"ca", "node", "-purpose sslclient", now.Add(-61 * time.Minute), "not yet valid"},
		{"ca", "node", "-purpose sslclient", now.Add(NodeLife - time.Minute), ""},
		{"ca", "node", "-purpose sslclient", now.Add(NodeLife + time.Minute), "has expired"},
		{"ca", "controller", "-purpose sslserver", now.Add(ControllerLife - time.Minute), ""},
		{"ca", "controller", "-purpose sslserver", now.Add(ControllerLife + time.Minute), "has expired"},
	} {
		at := fmt.Sprint(test.at.Unix())
		arguments := []string{"verify", "-x509_strict", "-attime", at, "-CAfile", test.trusted + ".pem"}
		arguments = append(append(arguments, strings.Fields(test.flags)...), test.certificate+".pem")
		out, err := openssl(t, folder, arguments...)
		says := strings.Contains(strings.ToLower(out), strings.ToLower(test.says))
		if valid := err == nil; valid != (test.says == "") || !says {
			t.Errorf("openssl %v: %v: %s, want %q", arguments, err, out, test.says)
		}
	}
}

// TestOpenSSLReads looks at the fields of certificates.
func TestOpenSSLReads(t *testing.T) {
	folder := t.TempDir()
	ca := newCA(t, cluster)
	file(t, folder, "ca.pem", ca.certificate)
	file(t, folder, "node.pem", newNode(t, ca, "gpu1").Certificate)
	for name, wants := range map[string][]string{
		"ca": {
			"O=abcdefghijkl2345, CN=phos cluster CA", "CA:TRUE, pathlen:0", "Certificate Sign", "ASN1 OID: prime256v1",
			"Not Before: Mar  1 11:00:00 2027 GMT", "Not After : Mar  1 12:00:00 2037 GMT", "ecdsa-with-SHA256",
		},
		"node": {
			"O=abcdefghijkl2345, OU=node, CN=gpu1", "CA:FALSE", "Digital Signature", "TLS Web Client Authentication",
			"URI:phos://abcdefghijkl2345/node/gpu1", "Not After : Mar 31 12:00:00 2027 GMT",
		},
	} {
		out, err := openssl(t, folder, "x509", "-in", name+".pem", "-noout", "-text")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		plain := strings.ReplaceAll(out, " = ", "=") // older versions write it so
		for _, want := range wants {
			if !strings.Contains(plain, want) {
				t.Errorf("%s has no %q:\n%s", name, want, out)
			}
		}
	}
}

// TestOpenSSLRequests issues certificates for requests that openssl has made.
func TestOpenSSLRequests(t *testing.T) {
	folder := t.TempDir()
	ca := newCA(t, cluster)
	keyFile(t, folder, "key.pem", must(NewKey())(t))
	for _, test := range []struct {
		flags []string
		good  bool
	}{
		{[]string{"-subj", "/CN=gpu1"}, true},
		{[]string{
			"-subj", "/O=abcdefghijkl2345/OU=node/CN=gpu1",
			"-addext", "subjectAltName=URI:phos://abcdefghijkl2345/node/gpu1",
		}, true},
		{[]string{"-subj", "/CN=gpu1", "-addext", "subjectAltName=DNS:gpu1"}, false},
		{[]string{"-subj", "/CN=gpu1", "-addext", "subjectAltName=otherName:1.2.3.4;UTF8:root"}, false},
		{[]string{"-subj", "/CN=gpu1", "-addext", "subjectAltName=email:root@example.org"}, false},
		{[]string{"-subj", "/CN=gpu1", "-addext", "basicConstraints=critical,CA:TRUE"}, false},
		{[]string{"-subj", "/CN=gpu1", "-addext", "basicConstraints=CA:FALSE"}, false},
		{[]string{"-subj", "/CN=gpu1", "-addext", "keyUsage=keyCertSign"}, false},
		{[]string{"-subj", "/CN=gpu1", "-addext", "extendedKeyUsage=serverAuth"}, false},
		{[]string{"-subj", "/CN=gpu2"}, false},
		{[]string{"-subj", "/CN=gpu1/CN=gpu2"}, false},
		{[]string{"-subj", "/CN=gpu2/CN=gpu1"}, false},
		{[]string{"-subj", "/OU=controller/CN=gpu1"}, false},
		{[]string{"-subj", "/O=zzzzzzzzzzzz2345/CN=gpu1"}, false},
		{[]string{"-subj", "/emailAddress=root@example.org/CN=gpu1"}, false},
	} {
		arguments := append([]string{"req", "-new", "-key", "key.pem", "-out", "request.pem"}, test.flags...)
		if out, err := openssl(t, folder, arguments...); err != nil {
			t.Fatalf("openssl %v: %v: %s", arguments, err, out)
		}
		certificate, err := ca.IssueNode(derOf(t, filepath.Join(folder, "request.pem")), "gpu1", now, NodeLife)
		if (err == nil) != test.good || !test.good && !errors.Is(err, ErrRequest) || (certificate != nil) != test.good {
			t.Errorf("%v: %v, want a certificate: %v", test.flags, err, test.good)
		}
		if certificate != nil && (certificate.IsCA || len(certificate.URIs) != 1 || len(certificate.DNSNames) > 0) {
			t.Errorf("%v: the certificate has more than it may", test.flags)
		}
	}
}
