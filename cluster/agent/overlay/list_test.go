package overlay

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestWhole asks again for a list that was interrupted, and for no other.
func TestWhole(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		fails int
		err   error
		asked int
		want  []int
	}{
		{0, nil, 1, []int{1}},
		{3, netlink.ErrDumpInterrupted, 4, []int{1}},
		{3, broken, 1, nil},
		{1 << 20, netlink.ErrDumpInterrupted, listTries, nil},
	} {
		asked := 0
		got, err := whole(func() ([]int, error) {
			if asked++; asked <= test.fails {
				return nil, test.err
			}
			return []int{1}, nil
		})
		if asked != test.asked || !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
			t.Errorf("%+v: asked %d times: %v, %v", test, asked, got, err)
		}
	}
}
