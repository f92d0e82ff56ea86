package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseSeconds parses a time on the command line: seconds, exact to the nanosecond, or a number
// with a unit, as 5m.
func parseSeconds(text string) (time.Duration, error) {
	wrong := fmt.Errorf(
		"%q is not a time: want seconds, such as 300 or 0.5, or a number with a unit, such as 5m or 1h30m",
		text,
	)
	if strings.ContainsAny(text, "nuµmsh") {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, wrong
		}
		return d, nil
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if whole+fraction == "" || len(fraction) > 9 || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, wrong
	}
	seconds, err := strconv.ParseInt("0"+whole, 10, 64)
	nanos, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil || seconds > math.MaxInt64/int64(time.Second)-1 {
		return 0, wrong
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos), nil
}

// parseSecondsList parses a list of times with commas.
func parseSecondsList(text string) (all []time.Duration, err error) {
	for each := range strings.SplitSeq(text, ",") {
		d, err := parseSeconds(each)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// secondsFlag is a flag.Value of a time.
type secondsFlag struct{ to *time.Duration }

func (f secondsFlag) String() string {
	if f.to == nil {
		return ""
	}
	return strconv.FormatFloat(f.to.Seconds(), 'f', -1, 64)
}

func (f secondsFlag) Set(text string) (err error) {
	*f.to, err = parseSeconds(text)
	return err
}

// choice is a flag that is on, off or not given.
type choice struct{ given, on bool }

// or returns the choice, or what it is by default.
func (c choice) or(usual bool) bool {
	if c.given {
		return c.on
	}
	return usual
}

// Set implements flag.Value.
func (c *choice) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*c = choice{true, on}
	return err
}

// String implements flag.Value.
func (c *choice) String() string {
	if !c.given {
		return ""
	}
	return strconv.FormatBool(c.on)
}

// IsBoolFlag lets the flag stand without a value.
func (c *choice) IsBoolFlag() bool { return true }
