package config

import (
	"maps"
	"slices"
	"strings"
)

// Differing lists the keys whose values differ: "checkpoint.every".
func (c Config) Differing(other Config) (keys []string) {
	ours, theirs := values(c.Text()), values(other.Text())
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if ours[key] != theirs[key] {
			keys = append(keys, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		if _, ok := ours[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// values returns the values in a text of phosd.toml, by their keys.
func values(text string) map[string]string {
	found, section := map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]") + "."
		} else if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			found[section+strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return found
}
