package authority

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/identity/versioned"
	"github.com/phos-gpu/phos/internal/linux/privatefile"
	"github.com/phos-gpu/phos/tests/golden"
)

// TestReplaceCA goes through all steps. In each, old and new members can talk to each other if they
// have the bundle of this step or of the one before.
func TestReplaceCA(t *testing.T) {
	first := must(NewRing(cluster, now))(t)
	oldNode, oldController := newNode(t, first.Signer(), "gpu1"), newController(t, first.Signer(), "c1")

	prepared := must(first.Prepare(now))(t)
	if prepared.Signer().Fingerprint() != first.Signer().Fingerprint() {
		t.Error("the next CA issues already")
	}
	switched := must(prepared.Switch())(t)
	newNode, newController := newNode(t, switched.Signer(), "gpu1"), newController(t, switched.Signer(), "c1")
	finished := must(switched.Finish())(t)

	for _, test := range []struct {
		step     string
		ring     Ring
		want     Step
		old, new bool
	}{
		{"first", first, Settled, true, false},
		{"prepared", prepared, Prepared, true, true},
		{"switched", switched, Switched, true, true},
		{"finished", finished, Settled, false, true},
	} {
		if got := test.ring.Step(); got != test.want {
			t.Errorf("%s: %s, want %s", test.step, got, test.want)
		}
		b := test.ring.Bundle()
		_, err1 := b.VerifyClient(oldNode.shown(), now)
		_, err2 := b.VerifyController(oldController.shown(), now)
		_, err3 := b.VerifyClient(newNode.shown(), now)
		_, err4 := b.VerifyController(newController.shown(), now)
		if (err1 == nil) != test.old || (err2 == nil) != test.old || (err3 == nil) != test.new || (err4 == nil) != test.new {
			t.Errorf("%s: %v, %v, %v, %v, want old %v, new %v", test.step, err1, err2, err3, err4, test.old, test.new)
		}
	}
	if finished.Signer().Fingerprint() != prepared.next.Fingerprint() {
		t.Error("another CA than the one that was prepared")
	}
	text := must(switched.Marshal())(t)
	oldKey := bytes.ReplaceAll(must(encodeKey(first.signer.key))(t), []byte("\n"), []byte(`\n`))
	if !bytes.Contains(must(first.Marshal())(t), oldKey) || bytes.Contains(text, oldKey) {
		t.Error("the old key is kept after the switch")
	}
	aborted := must(prepared.Abort())(t)
	if got, want := must(aborted.Marshal())(t), must(first.Marshal())(t); !bytes.Equal(got, want) {
		t.Error("Abort does not go back")
	}
}

func TestWrongSteps(t *testing.T) {
	settled := must(NewRing(cluster, now))(t)
	prepared := must(settled.Prepare(now))(t)
	switched := must(prepared.Switch())(t)
	prepare := func(r Ring) (Ring, error) { return r.Prepare(now) }
	for i, wrong := range []struct {
		ring Ring
		step func(Ring) (Ring, error)
	}{
		{settled, Ring.Switch},
		{settled, Ring.Finish},
		{settled, Ring.Abort},
		{prepared, prepare},
		{prepared, Ring.Finish},
		{switched, prepare},
		{switched, Ring.Switch},
		{switched, Ring.Abort},
	} {
		if r, err := wrong.step(wrong.ring); !errors.Is(err, ErrStep) || r.signer != nil {
			t.Errorf("%d: %v, want ErrStep", i, err)
		}
	}
}

// TestRingRecord reads records that were committed, and writes the same text. They came from
// Ring.Marshal once, and stay as they are: a cluster must be able to read its CA.
func TestRingRecord(t *testing.T) {
	for _, step := range []Step{Settled, Prepared, Switched} {
		path := filepath.Join("testdata", "ring-"+string(step)+".json")
		r, err := UnmarshalRing(must(os.ReadFile(path))(t))
		if err != nil {
			t.Fatal(err)
		}
		if r.Step() != step || r.Signer().Cluster() != cluster {
			t.Errorf("%s: %s, %s", path, r.Step(), r.Signer().Cluster())
		}
		golden.Check(t, path, must(r.Marshal())(t))
		newNode(t, r.Signer(), "gpu1") // key and certificate can be used
	}
}

// damage changes a record's JSON.
func damage(t *testing.T, r Ring, change func(map[string]any)) []byte {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(must(r.Marshal())(t), &fields); err != nil {
		t.Fatal(err)
	}
	change(fields)
	return must(json.Marshal(fields))(t)
}

func TestDamagedRing(t *testing.T) {
	settled := must(NewRing(cluster, now))(t)
	prepared := must(settled.Prepare(now))(t)
	switched := must(prepared.Switch())(t)
	stranger := must(NewRing(foreign, now))(t)
	other := must(stranger.signer.record())(t)
	node := newNode(t, settled.signer, "gpu1")
	nodeText := string(encodeCertificate(node.Certificate))
	signer := func(f map[string]any) map[string]any { return f["signer"].(map[string]any) }
	for name, text := range map[string][]byte{
		"nothing":         nil,
		"no signer":       damage(t, settled, func(f map[string]any) { delete(f, "signer") }),
		"no key":          damage(t, settled, func(f map[string]any) { delete(signer(f), "key") }),
		"another key":     damage(t, settled, func(f map[string]any) { signer(f)["key"] = other.Key }),
		"another cluster": damage(t, settled, func(f map[string]any) { f["cluster"] = foreign }),
		"two clusters":    damage(t, settled, func(f map[string]any) { f["next"] = other }),
		"the same twice":  damage(t, settled, func(f map[string]any) { f["next"] = f["signer"] }),
		"next and previous": damage(t, prepared, func(f map[string]any) {
			f["previous"] = string(encodeCertificate(newCA(t, cluster).certificate))
		}),
		"previous is a node": damage(t, settled, func(f map[string]any) { f["previous"] = nodeText }),
		"previous is a key":  damage(t, switched, func(f map[string]any) { f["previous"] = signer(f)["key"] }),
		"signer is a node": damage(t, settled, func(f map[string]any) {
			signer(f)["certificate"], signer(f)["key"] = nodeText, string(must(encodeKey(node.Key))(t))
		}),
		"two certificates": damage(t, settled, func(f map[string]any) {
			signer(f)["certificate"] = signer(f)["certificate"].(string) + other.Certificate
		}),
		"text before it": damage(t, settled, func(f map[string]any) {
			signer(f)["certificate"] = "x\n" + signer(f)["certificate"].(string)
		}),
		"an unknown field": damage(t, settled, func(f map[string]any) { f["limit"] = 1 }),
	} {
		if r, err := UnmarshalRing(text); !errors.Is(err, versioned.ErrDamaged) || r.signer != nil && err == nil {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		} else if len(err.Error()) > 300 || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer := damage(t, settled, func(f map[string]any) { f["version"] = 2 })
	if _, err := UnmarshalRing(newer); !errors.Is(err, versioned.ErrNewer) {
		t.Errorf("%v, want ErrNewer", err)
	}
}

func TestFiles(t *testing.T) {
	folder := t.TempDir()
	ringPath, pairPath := filepath.Join(folder, "state", "ca.json"), filepath.Join(folder, "state", "node.pem")
	r := must(NewRing(cluster, now))(t)
	p := newNode(t, r.Signer(), "gpu1")
	if err := errors.Join(SaveRing(ringPath, r), SavePair(pairPath, p)); err != nil {
		t.Fatal(err)
	}
	gotRing, gotPair := must(LoadRing(ringPath))(t), must(LoadPair(pairPath))(t)
	if !bytes.Equal(must(gotRing.Marshal())(t), must(r.Marshal())(t)) {
		t.Error("another ring was read")
	}
	if !gotPair.Key.Equal(p.Key) || !gotPair.Certificate.Equal(p.Certificate) || !gotPair.CA.Equal(p.CA) {
		t.Error("another pair was read")
	}
	for _, path := range []string{ringPath, pairPath} {
		if info := must(os.Stat(path))(t); info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadRing(ringPath); !errors.Is(err, privatefile.ErrExposed) {
		t.Errorf("%v, want ErrExposed", err)
	}
	if _, err := LoadPair(pairPath); !errors.Is(err, privatefile.ErrExposed) {
		t.Errorf("%v, want ErrExposed", err)
	}
}

func TestPairsThatDoNotFit(t *testing.T) {
	ca := newCA(t, cluster)
	a, b := newNode(t, ca, "gpu1"), newNode(t, newCA(t, cluster), "gpu1")
	path := filepath.Join(t.TempDir(), "node.pem")
	for name, p := range map[string]Pair{
		"another key": {a.Certificate, a.CA, b.Key},
		"another CA":  {a.Certificate, b.CA, a.Key},
	} {
		if err := SavePair(path, p); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadPair(path); !errors.Is(err, ErrPair) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want ErrPair", name, err)
		}
	}
}

func TestBundle(t *testing.T) {
	ca, second, stranger := newCA(t, cluster), newCA(t, cluster), newCA(t, foreign)
	b := must(NewBundle(ca.certificate, second.certificate))(t)
	again := must(ParseBundle(b.PEM()))(t)
	if !bytes.Equal(again.PEM(), b.PEM()) || again.Cluster() != cluster {
		t.Errorf("%s", again.PEM())
	}
	for _, each := range []struct {
		ca   *Authority
		want bool
	}{{ca, true}, {second, true}, {stranger, false}} {
		if got := again.Trusts(each.ca.Fingerprint()); got != each.want {
			t.Errorf("trusts %v: %v", each.ca.Fingerprint(), got)
		}
	}
	one := encodeCertificate(ca.certificate)
	key := must(encodeKey(ca.key))(t)
	var five []byte
	for range 5 {
		five = append(five, encodeCertificate(newCA(t, cluster).certificate)...)
	}
	for name, text := range map[string][]byte{
		"nothing":      nil,
		"a line":       []byte("hello"),
		"twice":        append(append([]byte(nil), one...), one...),
		"two clusters": append(append([]byte(nil), one...), encodeCertificate(stranger.certificate)...),
		"a key":        append(append([]byte(nil), one...), key...),
		"a node":       encodeCertificate(newNode(t, ca, "gpu1").Certificate),
		"a controller": encodeCertificate(newController(t, ca, "c1").Certificate),
		"five":         five,
		"text before":  append([]byte("x\n"), one...),
		"text after":   append(append([]byte(nil), one...), 'x'),
		"cut off":      one[:len(one)-20],
		"huge":         append(append([]byte(nil), one...), bytes.Repeat([]byte("\n"), 1<<20)...),
	} {
		if _, err := ParseBundle(text); !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v, want ErrBundle", name, err)
		}
	}
}

// FuzzRing checks that a record that was accepted is the same after it is written and read.
func FuzzRing(f *testing.F) {
	for _, step := range []Step{Settled, Prepared, Switched} {
		f.Add(must(os.ReadFile(filepath.Join("testdata", "ring-"+string(step)+".json")))(f))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := UnmarshalRing(text)
		if err != nil {
			return
		}
		first := must(r.Marshal())(t)
		again := must(UnmarshalRing(first))(t)
		if second := must(again.Marshal())(t); !bytes.Equal(first, second) {
			t.Fatalf("%s, want %s", second, first)
		}
	})
}

// FuzzPEM reads bundles and pairs.
func FuzzPEM(f *testing.F) {
	ca := newCA(f, cluster)
	p := newNode(f, ca, "gpu1")
	key := must(encodeKey(p.Key))(f)
	f.Add(newBundle(f, ca).PEM())
	f.Add(bytes.Join([][]byte{encodeCertificate(p.Certificate), encodeCertificate(p.CA), key}, nil))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nHeader: x\n\n-----END CERTIFICATE-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if b, err := ParseBundle(text); err == nil {
			if again, err := ParseBundle(b.PEM()); err != nil || !bytes.Equal(again.PEM(), b.PEM()) {
				t.Fatalf("%v", err)
			}
		}
		if p, err := parsePair(text); err == nil {
			if err := p.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
