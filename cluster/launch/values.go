package launch

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// UnmarshalText takes the text as it is.
func (v *Value) UnmarshalText(text []byte) error {
	*v = Value(text)
	return nil
}

// UnmarshalText reads N or MIN..MAX.
func (r *Replicas) UnmarshalText(text []byte) (err error) {
	least, most, isRange := strings.Cut(string(text), "..")
	if !isRange {
		most = least
	}
	if r.Min, err = strconv.Atoi(least); err == nil {
		r.Max, err = strconv.Atoi(most)
	}
	if err != nil || r.Min < 1 || r.Max < r.Min {
		return fmt.Errorf("want a number from 1, or a range as 4..8")
	}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (r Replicas) MarshalText() ([]byte, error) {
	if r.Elastic() {
		return fmt.Appendf(nil, "%d..%d", r.Min, r.Max), nil
	}
	return strconv.AppendInt(nil, int64(r.Min), 10), nil
}

// UnmarshalText reads a duration of Go, or a number of days as 7d.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if days, found := strings.CutSuffix(string(text), "d"); found {
		var count float64
		count, err = strconv.ParseFloat(days, 64)
		parsed = time.Duration(count * float64(24*time.Hour))
		if !(count >= 0 && count <= maxDays) {
			err = strconv.ErrRange
		}
	}
	if err != nil || parsed <= 0 {
		return fmt.Errorf("want a time above 0, as 90s, 12h or 7d")
	}
	*d = Duration(parsed)
	return nil
}

// maxDays is the longest Duration.
const maxDays = float64(math.MaxInt64/int64(24*time.Hour) - 1)

// MarshalText writes what UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// byteUnits are the suffixes of Bytes.
var byteUnits = []struct {
	suffix string
	shift  uint
}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}

// UnmarshalText reads a number of bytes, or one with a suffix.
func (b *Bytes) UnmarshalText(text []byte) error {
	digits, shift := string(text), uint(0)
	for _, unit := range byteUnits {
		if rest, found := strings.CutSuffix(digits, unit.suffix); found {
			digits, shift = rest, unit.shift
			break
		}
	}
	count, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || count == 0 || count > math.MaxUint64>>shift {
		return fmt.Errorf("want a size as 512MiB or 80GiB")
	}
	*b = Bytes(count << shift)
	return nil
}

// MarshalText writes the largest unit that divides the size.
func (b Bytes) MarshalText() ([]byte, error) {
	for _, unit := range byteUnits {
		if b != 0 && b%(1<<unit.shift) == 0 {
			return fmt.Appendf(nil, "%d%s", uint64(b)>>unit.shift, unit.suffix), nil
		}
	}
	return strconv.AppendUint(nil, uint64(b), 10), nil
}

// maxCPUs is above what any machine has.
const maxCPUs = 1 << 20

// UnmarshalText reads a decimal number.
func (c *CPUs) UnmarshalText(text []byte) error {
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(number >= 0.001 && number <= maxCPUs) {
		return fmt.Errorf("want a number of CPUs, as 2 or 0.5")
	}
	*c = CPUs(math.Round(number * 1000))
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (c CPUs) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(c)/1000, 'f', -1, 64), nil
}
