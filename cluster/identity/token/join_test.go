package token

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/tests/golden"
)

func TestJoin(t *testing.T) {
	j, r := newJoin(t, joinSpec())
	got, err := ParseJoin(j.Text(), now)
	if err != nil || !reflect.DeepEqual(got, j) {
		t.Fatalf("%+v, %v, want %+v", got, err, j)
	}
	if !strings.HasSuffix(j.Text(), "@c1.example.org:7443,[2001:db8::1]:7443") || len(j.Text()) > 160 {
		t.Errorf("the text is %s", j.Text())
	}
	if r.ID != got.ID || !r.Expires.Equal(got.Expires) {
		t.Errorf("record %+v of token %+v", r, got)
	}
	if err := r.Verify(got.Secret, "gpu1", now); err != nil {
		t.Error(err)
	}
	golden.Check(t, "testdata/join.txt", []byte(j.Text()+"\n"))
	text, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/join.json", text)
	if again, err := UnmarshalJoin(text); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%+v, %v, want %+v", again, err, r)
	}
}

func TestJoinExpires(t *testing.T) {
	j, r := newJoin(t, joinSpec())
	end := now.Add(time.Hour)
	for _, test := range []struct {
		at   time.Time
		want error
	}{{now.Add(-time.Hour), nil}, {end.Add(-1), nil}, {end, ErrExpired}, {end.Add(time.Hour), ErrExpired}} {
		if err := r.Verify(j.Secret, "gpu1", test.at); !errors.Is(err, test.want) {
			t.Errorf("record at %v: %v, want %v", test.at, err, test.want)
		}
		_, err := ParseJoin(j.Text(), test.at)
		if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), "2027-03-01 13:00:00Z") {
			t.Errorf("text at %v: %v, want %v", test.at, err, test.want)
		}
	}
}

func TestVerifyJoin(t *testing.T) {
	spec := joinSpec()
	j, r := newJoin(t, spec)
	spec.Node = "gpu1"
	_, bound := newJoin(t, spec)
	wrong := j.Secret
	wrong[15] ^= 1
	for name, test := range map[string]struct {
		record JoinRecord
		secret Secret
		node   string
		want   error
	}{
		"right":             {r, j.Secret, "gpu1", nil},
		"one bit":           {r, wrong, "gpu1", ErrRefused},
		"no secret":         {r, Secret{}, "gpu1", ErrRefused},
		"once more":         {r.Used(), j.Secret, "gpu1", nil},
		"used up":           {r.Used().Used(), j.Secret, "gpu1", ErrUsedUp},
		"more than used up": {r.Used().Used().Used(), j.Secret, "gpu1", ErrUsedUp},
		"its node":          {bound, j.Secret, "gpu1", nil},
		"another node":      {bound, j.Secret, "gpu2", ErrRefused},
		"a bad name":        {r, j.Secret, "../gpu1", identity.ErrBadName},
		"a wrong secret learns nothing": {
			JoinRecord{SecretSHA256: r.SecretSHA256}, wrong, "gpu1", ErrRefused,
		},
	} {
		if err := test.record.Verify(test.secret, test.node, now); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestNewJoinRefuses(t *testing.T) {
	for name, change := range map[string]func(*JoinSpec){
		"no address":    func(s *JoinSpec) { s.Addresses = nil },
		"a bad address": func(s *JoinSpec) { s.Addresses = []string{"host"} },
		"no time":       func(s *JoinSpec) { s.Lifetime = 0 },
		"a long time":   func(s *JoinSpec) { s.Lifetime = MaxLifetime + 1 },
		"no use":        func(s *JoinSpec) { s.Uses = 0 },
		"less than no":  func(s *JoinSpec) { s.Uses = -1 },
		"many uses":     func(s *JoinSpec) { s.Uses = MaxUses + 1 },
		"a bad node":    func(s *JoinSpec) { s.Node = "A" },
		"a bad label":   func(s *JoinSpec) { s.Labels = map[string]string{"a b": "c"} },
		"a bad value":   func(s *JoinSpec) { s.Labels = map[string]string{"a": "c\n"} },
		"an empty key":  func(s *JoinSpec) { s.Labels = map[string]string{"": "c"} },
	} {
		spec := joinSpec()
		change(&spec)
		if j, _, err := NewJoin(counting(), now, admin, spec); err == nil || j.ID != "" {
			t.Errorf("%s: %+v, %v", name, j, err)
		}
	}
	for _, maker := range []identity.Caller{{}, node, local, remote, viewer} {
		if _, _, err := NewJoin(counting(), now, maker, joinSpec()); !errors.Is(err, identity.ErrForbidden) {
			t.Errorf("%v: %v, want ErrForbidden", maker, err)
		}
	}
	if _, _, err := NewJoin(io.LimitReader(rand.Reader, 20), now, admin, joinSpec()); err == nil {
		t.Error("a token of too little randomness")
	}
}

// TestSecretIsNotShown prints tokens in all the ways in which they might reach a log.
func TestSecretIsNotShown(t *testing.T) {
	j, _ := newJoin(t, joinSpec())
	u, _ := newUser(t)
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", j, u, &u)
		fmt.Fprintf(&out, verb+"\n", j.Secret)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("token", "join", j, "user", u, "secret", j.Secret)
	}
	asJSON, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(asJSON)
	shown := strings.ToLower(out.String())
	for _, form := range []string{
		"%d %d %d", "%x%x%x", "%02x%02x%02x", "0x%x, 0x%x, 0x%x", "%02x %02x %02x", "%b %b %b", "%d,%d,%d",
	} {
		if text := fmt.Sprintf(form, j.Secret[9], j.Secret[10], j.Secret[11]); strings.Contains(shown, text) {
			t.Errorf("%q is in what was printed", text)
		}
	}
	if !strings.Contains(shown, "(secret)") {
		t.Error("nothing was printed")
	}
}
