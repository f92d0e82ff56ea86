package config

import (
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Flags collects the command-line settings; they win over the file, whatever their order.
type Flags struct {
	// File is the configuration file asked for; empty: the default one.
	File string
	set  []func(*Config) error
}

// Register adds one flag for each setting, named as the key with dashes (--workers-standby), and
// --set KEY=VALUE.
func (f *Flags) Register(flags *flag.FlagSet) {
	flags.StringVar(&f.File, "config", "", "configuration `FILE` (default "+DefaultPath+")")
	for _, key := range append(slices.Sorted(maps.Keys(short)), Keys()...) {
		flags.Func(flagName(key), usageOf(key), func(value string) error { return f.add(key, value) })
	}
	for _, old := range slices.Sorted(maps.Keys(renamed)) {
		usage := "old name of --" + flagName(renamed[old])
		flags.Func(flagName(old), usage, func(value string) error { return f.add(old, value) })
	}
	flags.Func("set", "`KEY=VALUE`: any setting by its key", func(text string) error {
		key, value, _ := strings.Cut(text, "=")
		return f.add(key, value)
	})
}

// usageOf describes a key's flag by the comment that --print-config writes. It begins with the form
// of the value, in back quotes as package flag wants it.
func usageOf(key string) string {
	if within := short[key]; within != "" {
		return "`TEXT`: short for --" + flagName(key+"."+within)
	}
	of := reflect.TypeFor[Config]()
	var field reflect.StructField
	for part := range strings.SplitSeq(key, ".") {
		field, _ = fieldWithTag(of, part)
		of = field.Type
	}
	return fmt.Sprintf("`%s`: %s", valueForm(of), field.Tag.Get("comment"))
}

// fieldWithTag returns the field of a struct with a toml tag.
func fieldWithTag(of reflect.Type, tag string) (reflect.StructField, bool) {
	return of.FieldByNameFunc(func(name string) bool {
		field, _ := of.FieldByName(name)
		return field.Tag.Get("toml") == tag
	})
}

// valueForm returns a placeholder for values of a type.
func valueForm(of reflect.Type) string {
	switch {
	case of == reflect.TypeFor[Size]():
		return "BYTES"
	case of == reflect.TypeFor[Interval]():
		return "TIME"
	case of.Kind() == reflect.Slice:
		return "LIST"
	case of.Kind() == reflect.Bool:
		return "BOOL"
	case of.Kind() == reflect.Int:
		return "N"
	}
	return "TEXT"
}

// flagName returns the name of a key's flag.
func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// add adds a setting, after a check of its key and the form of its value.
func (f *Flags) add(key, value string) error {
	apply := func(c *Config) error { return c.Set(key, value) }
	f.set = append(f.set, apply)
	var probe Config
	return apply(&probe)
}

// Resolve is the file with the flags applied.
func (f *Flags) Resolve() (Config, error) {
	config, err := Load(f.File)
	if err != nil {
		return Config{}, err
	}
	for _, apply := range f.set {
		if err := apply(&config); err != nil {
			return Config{}, err
		}
	}
	if config.Checkpoint.Policy().Aimless() {
		// Only now: a file may say when, and a flag where to.
		return Config{}, &SettingError{
			"checkpoint.dir",
			"",
			"it is missing, and checkpoint.every, checkpoint.on and checkpoint.restore do nothing without it",
		}
	}
	if config.Checkpoint.Dir != "" && config.Checkpoint.Restore != "" && !config.Checkpoint.Policy().Takes() {
		return Config{}, &SettingError{
			"checkpoint.restore",
			config.Checkpoint.Restore,
			"checkpoint.every and checkpoint.on are missing, so no checkpoint would be taken",
		}
	}
	return config, config.Check()
}
