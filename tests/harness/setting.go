package harness

import (
	"os"
	"strconv"
	"testing"
)

// Setting returns a number of the environment, or otherwise if there is none.
func Setting(t testing.TB, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", variable, text, err)
	}
	return number
}
