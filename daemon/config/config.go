package config

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/scrape/endpoint"
)

// DefaultPath is read when no other file is named; it need not exist.
const DefaultPath = "/etc/phos/phosd.toml"

// Config is phosd's configuration.
type Config struct {
	Gpus       GPUs     `toml:"gpus"`
	Socket     string   `toml:"socket" comment:"unix socket of programs and of pos_cli"`
	RuntimeDir string   `toml:"runtime_dir" comment:"where sessions, control sockets and records live; a directory of root's"`
	StateDir   string   `toml:"state_dir" comment:"what outlives a boot: the key that seals images, unfinished work, records of images and programs; a directory of root's"`
	Criu       string   `toml:"criu" comment:"the program that saves and restores processes: a path, or a name to look for"`
	Access     Access   `toml:"access"`
	Sessions   Sessions `toml:"sessions"`
	Users      Users    `toml:"users"`
	Workers    Workers  `toml:"workers"`

	Checkpoint Checkpoint `toml:"checkpoint"`

	Log     Log     `toml:"log"`
	Metrics Metrics `toml:"metrics"`
}

// Sessions limits what programs may take.
type Sessions struct {
	TmpfsSize       Size `toml:"tmpfs_size" comment:"memory that all sessions together may pin; 0: half of the machine's"`
	ArenaSize       Size `toml:"arena_size" comment:"pinned and managed memory that one program may have"`
	ProgramsPerUser int  `toml:"programs_per_user" comment:"programs of one user at a time; root is not limited"`
	Total           int  `toml:"total" comment:"programs at a time, at most 1024"`
	StartSeconds    int  `toml:"start_seconds" comment:"time a program has for the handshake"`
}

// Workers says which standby workers there are.
type Workers struct {
	Standby int  `toml:"standby" comment:"standby workers: started in advance for the next programs, each with a context on every GPU"`
	Memory  Size `toml:"memory" comment:"memory of each GPU that is accounted to a standby worker; 0: what it holds"`
}

// Log says what phosd and its workers write down, and where.
type Log struct {
	Level  string `toml:"level" comment:"what is logged at least: debug, info, warn or error"`
	Format string `toml:"format" comment:"form of the log: text or json"`
	File   string `toml:"file" comment:"file of the log, in a directory that exists; empty: standard error"`
}

// Metrics is the Prometheus endpoint.
type Metrics struct {
	Listen string `toml:"listen" comment:"unix:/path or a loopback host:port; empty: none"`
}

// MaxSessions is the largest sessions.total: the ledger of the GPUs' memory has as many slots.
const MaxSessions = 1024

// maxStandby is the most standby workers: more would not start faster.
const maxStandby = 64

// Default is the configuration without a file and flags.
func Default() Config {
	return Config{
		Gpus:       GPUs{Offer: "auto"},
		Socket:     api.DefaultSocket,
		RuntimeDir: filepath.Dir(api.DefaultSocket),
		StateDir:   "/var/lib/phos",
		Criu:       "criu",
		Checkpoint: defaultCheckpoint(),
		Access:     Access{Mode: 0o666, Users: []string{}, Groups: []string{}},
		Users:      defaultUsers(),
		Sessions:   Sessions{ArenaSize: 16 << 30, ProgramsPerUser: 256, Total: 1024, StartSeconds: 20},
		Log:        Log{Level: "info", Format: logText},
	}
}

// Text is the configuration as a file that Parse accepts.
func (c Config) Text() string {
	var text bytes.Buffer
	// Encoding plain strings and numbers cannot fail.
	if err := toml.NewEncoder(&text).Encode(c); err != nil {
		return "# " + err.Error() + "\n"
	}
	return text.String()
}

// Check refuses values that cannot work.
func (c Config) Check() error {
	checks := []struct {
		holds     bool
		key, text string
		value     any
	}{
		{c.Gpus.Offer != "", "gpus.offer", "it is empty; say auto, soft:N or cuda", c.Gpus.Offer},
		{
			c.Gpus.Driver == "" || filepath.IsAbs(c.Gpus.Driver),
			"gpus.driver",
			"it must be an absolute path",
			c.Gpus.Driver,
		},
		{filepath.IsAbs(c.Socket), "socket", "it must be an absolute path", c.Socket},
		{len(c.Socket) < 108, "socket", "it is longer than the 107 bytes that a unix socket's path may have", c.Socket},
		{filepath.IsAbs(c.RuntimeDir), "runtime_dir", "it must be an absolute path", c.RuntimeDir},
		{len(c.RuntimeDir) <= 64, "runtime_dir", "it is longer than 64 bytes", c.RuntimeDir},
		{filepath.IsAbs(c.StateDir), "state_dir", "it must be an absolute path", c.StateDir},
		{c.Criu != "", "criu", "it is empty; say criu, or a path", c.Criu},
		{c.Sessions.ArenaSize >= 2<<20, "sessions.arena_size", "it is below 2MiB", c.Sessions.ArenaSize},
		{c.Sessions.ProgramsPerUser > 0, "sessions.programs_per_user", "it must be at least 1", c.Sessions.ProgramsPerUser},
		{
			c.Sessions.Total > 0 && c.Sessions.Total <= MaxSessions,
			"sessions.total",
			fmt.Sprintf("it must be 1 to %d", MaxSessions),
			c.Sessions.Total,
		},
		{c.Sessions.StartSeconds > 0, "sessions.start_seconds", "it must be at least 1", c.Sessions.StartSeconds},
		{
			c.Workers.Standby >= 0 && c.Workers.Standby <= maxStandby,
			"workers.standby",
			fmt.Sprintf("it must be 0 to %d", maxStandby),
			c.Workers.Standby,
		},
		{
			oneOf(c.Log.Level, "debug", "info", "warn", "error"),
			"log.level",
			"it must be debug, info, warn or error",
			c.Log.Level,
		},
		{oneOf(c.Log.Format, logText, LogJSON), "log.format", "it must be text or json", c.Log.Format},
		{c.Log.File == "" || filepath.IsAbs(c.Log.File), "log.file", "it must be an absolute path", c.Log.File},
	}
	for _, check := range checks {
		if !check.holds {
			return &SettingError{check.key, fmt.Sprint(check.value), check.text}
		}
	}
	for _, check := range []func() error{c.Access.check, c.Users.check, c.Checkpoint.check} {
		if err := check(); err != nil {
			return err
		}
	}
	return c.Metrics.check()
}

// Network splits Listen into what net.Listen takes.
func (m Metrics) Network() (network, address string) { return endpoint.Network(m.Listen) }

func (m Metrics) check() error {
	if err := endpoint.Check(m.Listen); err != nil {
		return &SettingError{"metrics.listen", m.Listen, err.Error()}
	}
	return nil
}

// oneOf reports whether value is one of those allowed.
func oneOf(value string, allowed ...string) bool {
	for _, each := range allowed {
		if value == each {
			return true
		}
	}
	return false
}
