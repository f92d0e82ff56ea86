package token

import (
	"bytes"
	"testing"
)

// FuzzParse checks that a token has one text, whatever is read.
func FuzzParse(f *testing.F) {
	j, _ := newJoin(f, joinSpec())
	u, _ := newUser(f)
	for _, seed := range []string{
		j.Text(), u.Text(), u.Bearer(), "phos_1", "phosjoin_1@a:1", "phos_2abc", "\n", "@", "Bearer ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if j, err := ParseJoin(text, now); err == nil && j.Text() != text {
			t.Fatalf("%q is %q", text, j.Text())
		}
		if u, err := ParseUser(text); err == nil && u.Text() != text {
			t.Fatalf("%q is %q", text, u.Text())
		}
		if u, err := ParseBearer(text); err == nil {
			if again, err := ParseBearer(u.Bearer()); err != nil || again != u {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

// FuzzRecords checks that a record that was accepted is the same after it is written and read.
func FuzzRecords(f *testing.F) {
	_, join := newJoin(f, joinSpec())
	_, user := newUser(f)
	for _, marshal := range []func() ([]byte, error){join.Marshal, user.Marshal} {
		text, err := marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"version":1,"id":"aaaaaaaa"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := UnmarshalJoin(text); err == nil {
			rewrite(t, r, UnmarshalJoin)
		}
		if r, err := UnmarshalUser(text); err == nil {
			rewrite(t, r, UnmarshalUser)
		}
	})
}

// marshaler is either record.
type marshaler interface{ Marshal() ([]byte, error) }

// rewrite writes a record, reads that, and compares with what it writes then.
func rewrite[R marshaler](t *testing.T, r R, read func([]byte) (R, error)) {
	first, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := read(first)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := again.Marshal(); err != nil || !bytes.Equal(first, second) {
		t.Fatalf("%s, %v, want %s", second, err, first)
	}
}
