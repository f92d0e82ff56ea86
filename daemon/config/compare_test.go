package config

import (
	"slices"
	"testing"
)

func TestDiffering(t *testing.T) {
	one, other := Default(), Default()
	if keys := one.Differing(other); len(keys) > 0 {
		t.Errorf("of equal settings differ %v", keys)
	}
	other.Log.Level, other.Socket, other.Workers.Standby = "warn", "/tmp/s", 7
	if keys, want := one.Differing(other), []string{"log.level", "socket", "workers.standby"}; !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
}
