package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as 8GiB, 512MiB or a plain number.
type Size uint64

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}

// MarshalText writes the largest unit that divides the size.
func (s Size) MarshalText() ([]byte, error) {
	for _, unit := range sizeUnits {
		if s != 0 && s%(1<<unit.shift) == 0 {
			return fmt.Appendf(nil, "%d%s", uint64(s)>>unit.shift, unit.suffix), nil
		}
	}
	return strconv.AppendUint(nil, uint64(s), 10), nil
}

// UnmarshalText reads what MarshalText writes. K, M, G and T mean the same as KiB and so on.
func (s *Size) UnmarshalText(text []byte) error {
	digits, shift := strings.TrimSpace(string(text)), uint(0)
	for _, unit := range sizeUnits {
		for _, suffix := range []string{unit.suffix, unit.suffix[:1]} {
			if rest, found := strings.CutSuffix(digits, suffix); found && shift == 0 {
				digits, shift = strings.TrimSpace(rest), unit.shift
			}
		}
	}
	count, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || count > ^uint64(0)>>shift {
		return fmt.Errorf("%w: %q is no size; write it as 8GiB or 512MiB", ErrInvalid, text)
	}
	*s = Size(count << shift)
	return nil
}
