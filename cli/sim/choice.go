package sim

import "strconv"

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
