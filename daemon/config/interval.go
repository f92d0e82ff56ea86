package config

import (
	"fmt"
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

// Occasions are when the policy takes a checkpoint, besides the interval.
type Occasions []string

// The occasions.
const (
	// ExitSignal is when phosd is told to end by a signal, as at a shutdown of the machine: programs
	// are saved and run on.
	ExitSignal = "exit-signal"
	// Drain is when phosd is told to save all programs and stop them (pos_cli --stop --drain).
	Drain = "drain"
)

// check refuses unknown occasions.
func (o Occasions) check() error {
	for _, each := range o {
		if each != ExitSignal && each != Drain {
			return fmt.Errorf("%q is no occasion; say %s or %s", each, ExitSignal, Drain)
		}
	}
	return nil
}
