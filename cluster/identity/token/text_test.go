package token

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
)

// texts has one token of each kind, without addresses, and a function that reads it.
func texts(t testing.TB) map[string]func(string) error {
	j, _ := newJoin(t, joinSpec())
	u, _ := newUser(t)
	token, _, _ := strings.Cut(j.Text(), "@")
	return map[string]func(string) error{
		token:    func(text string) error { _, err := ParseJoin(text+"@a:1", now); return err },
		u.Text(): func(text string) error { _, err := ParseUser(text); return err },
	}
}

func refused(err error) bool {
	return errors.Is(err, ErrMistyped) || errors.Is(err, ErrVersion) || errors.Is(err, ErrKind)
}

// TestEachChange changes each character into each other one, leaves it out, doubles it, and swaps
// it with the next one.
func TestEachChange(t *testing.T) {
	for text, parse := range texts(t) {
		if err := parse(text); err != nil {
			t.Fatal(err)
		}
		for i := range text {
			for c := byte(0); c < 0x80; c++ {
				changed := text[:i] + string(c) + text[i+1:]
				if err := parse(changed); c != text[i] && !refused(err) {
					t.Errorf("%q for %q at %d: %v", c, text[i], i, err)
				}
			}
			for what, changed := range map[string]string{
				"left out": text[:i] + text[i+1:],
				"doubled":  text[:i+1] + text[i:],
				"a line":   text[:i] + "\n" + text[i:],
				"a space":  text[:i] + " " + text[i:],
			} {
				if err := parse(changed); !refused(err) {
					t.Errorf("%s at %d: %v", what, i, err)
				}
			}
			if i > 0 && text[i] != text[i-1] {
				swapped := text[:i-1] + text[i:i+1] + text[i-1:i] + text[i+1:]
				if err := parse(swapped); !refused(err) {
					t.Errorf("swapped at %d: %v", i, err)
				}
			}
		}
	}
}

// TestChecksum computes the checksum of a token as its documentation says.
func TestChecksum(t *testing.T) {
	u, _ := newUser(t)
	payload := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	sum := crc32.Checksum(append([]byte("phos_1"), payload...), crc32.MakeTable(0x82f63b78))
	want := fmt.Sprintf("%x%08x", payload, sum)
	// An independent decoder of base32.
	var got strings.Builder
	bits, value := 0, 0
	for _, c := range strings.TrimPrefix(u.Text(), "phos_1") {
		value, bits = value<<5|strings.IndexRune("abcdefghijklmnopqrstuvwxyz234567", c), bits+5
		if bits >= 8 {
			bits -= 8
			fmt.Fprintf(&got, "%02x", value>>bits)
			value &= 1<<bits - 1
		}
	}
	if got.String() != want || bits != 0 {
		t.Errorf("%s holds %s, want %s", u.Text(), got.String(), want)
	}
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	j, _ := newJoin(t, joinSpec())
	u, _ := newUser(t)
	join := func(text string) error { _, err := ParseJoin(text, now); return err }
	user := func(text string) error { _, err := ParseUser(text); return err }
	token, addresses, _ := strings.Cut(j.Text(), "@")
	for _, test := range []struct {
		err  error
		is   error
		says string
	}{
		{user(""), ErrMistyped, "does not begin with phos_"},
		{user("hello"), ErrMistyped, "does not begin with phos_"},
		{user("phos_"), ErrMistyped, "nothing follows"},
		{user("phos_x" + u.Text()[6:]), ErrMistyped, "no version"},
		{user("phos_2" + u.Text()[6:]), ErrVersion, "version 2"},
		{user("phos_9"), ErrVersion, "version 9"},
		{user(u.Text() + "a"), ErrMistyped, "41 characters"},
		{user(u.Text()[:len(u.Text())-1] + "1"), ErrMistyped, "digits 2 to 7"},
		{user(strings.ToUpper(u.Text())), ErrMistyped, "does not begin"},
		{user("phos_1" + strings.ToUpper(u.Text()[6:])), ErrMistyped, "small letters"},
		{user(token), ErrKind, "for nodes that join"},
		{join(u.Text() + "@a:1"), ErrKind, "for users"},
		{join(token), ErrMistyped, "@HOST:PORT is missing"},
		{join(token + "@"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@host"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@host:0"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@host:65536"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@host:07443"), nil, ""},
		{join(token + "@:7443"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@::1:7443"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@a:1,"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@a:1, b:1"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@a b:1"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@-a:1"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@fe80::1%eth0:1"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@[a]:1"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@a:1@b:1"), ErrMistyped, "want HOST:PORT"},
		{join(token + "@" + strings.Repeat("a:1,", 8) + "a:1"), ErrMistyped, "9 addresses"},
		{join(token[:20] + "@" + addresses), ErrMistyped, "104 are right"},
	} {
		if !errors.Is(test.err, test.is) || test.err != nil && !strings.Contains(test.err.Error(), test.says) {
			t.Errorf("%v, want %v with %q", test.err, test.is, test.says)
		}
		text := fmt.Sprint(test.err)
		if strings.Contains(text, u.Text()[14:]) || strings.Contains(text, token[30:]) {
			t.Errorf("the error shows the secret: %v", test.err)
		}
	}
}
