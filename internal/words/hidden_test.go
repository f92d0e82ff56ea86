package words

import "testing"

// TestHidden: the ranges are those of Unicode's report on bidirectional text, and of characters
// without a picture.
func TestHidden(t *testing.T) {
	for _, each := range []struct{ from, to rune }{
		{0, 0x1f},
		{0x7f, 0x9f},
		{0xad, 0xad},
		{0x61c, 0x61c},
		{0x200b, 0x200f},
		{0x2028, 0x202e},
		{0x2060, 0x2064},
		{0x2066, 0x2069},
		{0xfeff, 0xfeff},
	} {
		for r := each.from; r <= each.to; r++ {
			if !Hidden(r) {
				t.Errorf("%U counts as shown", r)
			}
		}
	}
	for _, r := range "az09-_ /é火א🙂\u0301" {
		if Hidden(r) {
			t.Errorf("%U counts as hidden", r)
		}
	}
}
