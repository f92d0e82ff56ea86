package jobfile

import (
	"fmt"
	"strings"
	"time"

	"github.com/phos-gpu/phos/daemon/config"
)

// Checkpoint is the checkpoint policy in pos.yaml. It replaces phosd's own policy, which applies
// only to programs without one.
type Checkpoint struct {
	// Dir is the image directory, as the program would name it; {job}, {pid} and {rank} are replaced.
	Dir string `yaml:"dir"`
	// Every is the interval.
	Every string `yaml:"every"`
	// Keep is how many generations are kept; 0 means all.
	Keep *int `yaml:"keep"`
	// Bandwidth limits the bytes per second of both halves; the pause is not made longer.
	Bandwidth string `yaml:"bandwidth"`
	// On lists further events that cause a checkpoint.
	On []string `yaml:"on"`
	// Restore is "on-boot" if phosd restores the program after a restart of the machine.
	Restore string `yaml:"restore"`
}

const checkpointFields = "dir, every, keep, bandwidth, on, restore"

// Policy parses and checks the section.
func (c Checkpoint) Policy() (policy config.Policy, err error) {
	policy = config.Policy{Dir: c.Dir, Keep: config.DefaultKeep, On: c.occasions(), OnBoot: c.Restore == config.OnBoot}
	if strings.ContainsRune(c.Dir, 0) {
		return policy, &fieldError{"dir", "it contains a zero byte"}
	}
	if c.Every != "" {
		if err := policy.Every.UnmarshalText([]byte(c.Every)); err != nil {
			return policy, &fieldError{"every", fmt.Sprintf("%q is no time span; write it as 10m or 1h30m", c.Every)}
		}
		if policy.Every != 0 && time.Duration(policy.Every) < time.Second {
			return policy, &fieldError{"every", "it is below a second"}
		}
	}
	if c.Keep != nil {
		if policy.Keep = *c.Keep; policy.Keep < 0 {
			return policy, &fieldError{"keep", "it must not be negative"}
		}
	}
	if c.Bandwidth != "" {
		if err := policy.Bandwidth.UnmarshalText([]byte(c.Bandwidth)); err != nil {
			return policy, &fieldError{"bandwidth", fmt.Sprintf("%q is no size; write it as 500MiB", c.Bandwidth)}
		}
	}
	for _, occasion := range c.On {
		if occasion != config.ExitSignal && occasion != config.Drain {
			return policy, &fieldError{
				"on",
				fmt.Sprintf("%q is no occasion; say %s or %s", occasion, config.ExitSignal, config.Drain),
			}
		}
	}
	if c.Restore != "" && c.Restore != config.OnBoot {
		return policy, &fieldError{"restore", fmt.Sprintf("%q is not known; say %s", c.Restore, config.OnBoot)}
	}
	if policy.Aimless() {
		return policy, &fieldError{"dir", "it is missing, so no checkpoint would be taken"}
	}
	if policy.Dir != "" && policy.Every == 0 && len(policy.On) == 0 {
		return policy, &fieldError{"dir", "every and on are missing, so no checkpoint would be taken"}
	}
	return policy, nil
}

// occasions returns the known ones, for a policy that is invalid and still shown.
func (c Checkpoint) occasions() (known config.Occasions) {
	for _, occasion := range c.On {
		if occasion == config.ExitSignal || occasion == config.Drain {
			known = append(known, occasion)
		}
	}
	return known
}

// fieldError is an error in one field of the section.
type fieldError struct{ field, text string }

func (e *fieldError) Error() string { return e.field + ": " + e.text }
