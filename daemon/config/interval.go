package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Interval is a time span, written as 10m or 1h30m.
type Interval time.Duration

// MarshalText writes it as Go does.
func (i Interval) MarshalText() ([]byte, error) {
	if i == 0 {
		return []byte("0"), nil
	}
	return []byte(time.Duration(i).String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (i *Interval) UnmarshalText(text []byte) error {
	span, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil || span < 0 {
		return fmt.Errorf("%w: %q is no time span; write it as 10m or 1h30m", ErrInvalid, text)
	}
	*i = Interval(span)
	return nil
}

// Moments are occasions, written with commas between: "exit-signal,drain".
type Moments string

// Moments that there are.
const (
	// ExitSignal is when phosd is told to end by a signal, as at a shutdown of the machine: programs are saved and run on.
	ExitSignal = "exit-signal"
	// Drain is when phosd is told to save all programs and stop them (pos_cli --stop --drain).
	Drain = "drain"
)

// MarshalText is the text as it is.
func (m Moments) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText refuses occasions that there are not.
func (m *Moments) UnmarshalText(text []byte) error {
	for _, each := range Moments(text).List() {
		if each != ExitSignal && each != Drain {
			return fmt.Errorf("%w: %q is no occasion; say %s or %s", ErrInvalid, each, ExitSignal, Drain)
		}
	}
	*m = Moments(text)
	return nil
}

// List is each of them.
func (m Moments) List() (list []string) {
	for each := range strings.SplitSeq(string(m), ",") {
		if each = strings.TrimSpace(each); each != "" {
			list = append(list, each)
		}
	}
	return list
}

// Has reports whether a moment is among them.
func (m Moments) Has(moment string) bool {
	return slices.Contains(m.List(), moment)
}
