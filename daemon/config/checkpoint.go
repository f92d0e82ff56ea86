package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Checkpoint says how checkpoints are taken, and which the policy takes.
type Checkpoint struct {
	MemoryBudget    Size      `toml:"memory_budget" comment:"memory that one checkpoint may take besides the program's"`
	Bandwidth       Size      `toml:"bandwidth" comment:"bytes that one checkpoint may copy from GPUs and write to its image a second, both halves and all its programs together; the pause is not made longer; 0: as fast as it goes"`
	Compress        bool      `toml:"compress" comment:"store with zstd what becomes smaller by it"`
	FileLimit       Size      `toml:"file_limit" comment:"files that are open for writing are saved with their content up to this size"`
	DeadlineSeconds int       `toml:"deadline_seconds" comment:"time that a program may take to become idle"`
	PreparedSeconds int       `toml:"prepared_seconds" comment:"how long an image that a pre-restore has prepared is kept"`
	Dir             string    `toml:"dir" comment:"policy: where programs are saved whose pos.yaml says nothing of checkpoints; created if its parent exists; each user gets a directory below, each program one in that; empty: nowhere"`
	Every           Interval  `toml:"every" comment:"policy: how often, as 10m or 1h30m; 0: never"`
	Keep            int       `toml:"keep" comment:"policy: how many generations stay; 0: all"`
	KeepEnded       Interval  `toml:"keep_ended" comment:"policy: how long images in dir stay at least after their program has ended (168h: a week), unless their user's share (users.image_bytes) is used up; 0: phosd removes none"`
	Restore         string    `toml:"restore" comment:"policy: on-boot restores programs that ran when the machine went down; empty: none is restored"`
	On              Occasions `toml:"on" comment:"policy: when else: exit-signal (phosd is told to end by a signal; programs run on), drain (pos_cli --stop --drain; programs are stopped)"`
}

// DefaultKeep is how many generations a policy keeps by default.
const DefaultKeep = 3

// Policy says which checkpoints of a program are taken without a request.
type Policy struct {
	// Dir is where they go; empty: there are none.
	Dir   string
	Every Interval
	// Keep is how many generations stay; 0: all.
	Keep int
	// Bandwidth is bytes a second, of both halves; 0: as fast as it goes.
	Bandwidth Size
	On        Occasions
	// OnBoot means that phosd restores the program after a restart of the machine.
	OnBoot bool
}

// OnBoot is the value of the setting restore that restores programs after a restart of the
// machine.
const OnBoot = "on-boot"

// Takes reports whether a policy says when.
func (p Policy) Takes() bool { return p.Every > 0 || len(p.On) > 0 }

// Aimless reports whether a policy says when, but names no directory.
func (p Policy) Aimless() bool { return p.Dir == "" && (p.Takes() || p.OnBoot) }

// Policy returns the policy of programs whose pos.yaml has none.
func (c Checkpoint) Policy() Policy {
	return Policy{
		Dir: c.Dir, Every: c.Every, Keep: c.Keep, Bandwidth: c.Bandwidth, On: c.On, OnBoot: c.Restore == OnBoot,
	}
}

// defaultCheckpoint returns the settings without a file: 1 GiB of memory, 30 s, no policy.
func defaultCheckpoint() Checkpoint {
	return Checkpoint{
		MemoryBudget:    1 << 30,
		FileLimit:       256 << 20,
		DeadlineSeconds: 30,
		PreparedSeconds: 300,
		Keep:            DefaultKeep,
		KeepEnded:       Interval(7 * 24 * time.Hour),
		On:              Occasions{},
	}
}

// PreparedTime returns how long a prepared image is kept.
func (c Checkpoint) PreparedTime() time.Duration {
	return time.Duration(c.PreparedSeconds) * time.Second
}

// Deadline returns how long a program may take to become idle.
func (c Checkpoint) Deadline() time.Duration { return time.Duration(c.DeadlineSeconds) * time.Second }

func (c Checkpoint) check() error {
	checks := []struct {
		holds     bool
		key, text string
		value     any
	}{
		{c.MemoryBudget >= 4<<20, "checkpoint.memory_budget", "it is below 4MiB", c.MemoryBudget},
		{c.DeadlineSeconds > 0, "checkpoint.deadline_seconds", "it must be at least 1", c.DeadlineSeconds},
		{c.PreparedSeconds > 0, "checkpoint.prepared_seconds", "it must be at least 1", c.PreparedSeconds},
		{c.Dir == "" || filepath.IsAbs(c.Dir), "checkpoint.dir", "it must be an absolute path", c.Dir},
		{
			c.Every == 0 || time.Duration(c.Every) >= time.Second,
			"checkpoint.every",
			"it is below a second",
			time.Duration(c.Every),
		},
		{
			c.KeepEnded == 0 || time.Duration(c.KeepEnded) >= time.Second,
			"checkpoint.keep_ended",
			"it is below a second",
			time.Duration(c.KeepEnded),
		},
		{c.Restore == "" || c.Restore == OnBoot, "checkpoint.restore", "it must be " + OnBoot + " or empty", c.Restore},
		{c.Keep >= 0, "checkpoint.keep", "it must not be negative", c.Keep},
	}
	for _, check := range checks {
		if !check.holds {
			return &SettingError{check.key, fmt.Sprint(check.value), check.text}
		}
	}
	if err := c.On.check(); err != nil {
		return &SettingError{"checkpoint.on", strings.Join(c.On, ","), err.Error()}
	}
	return nil
}
