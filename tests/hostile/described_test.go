package hostile

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/tests/harness"
)

// section returns a section of docs/security.md.
func section(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile(harness.Path("docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## "+title+"\n")
	if !found {
		t.Fatalf("docs/security.md has no section %q", title)
	}
	within, _, _ := strings.Cut(after, "\n## ")
	return within
}

// TestRequestsAreDescribed: docs/security.md says of each request which users may make it, and what
// it can take.
func TestRequestsAreDescribed(t *testing.T) {
	var requests []string
	for _, each := range api.Daemon_ServiceDesc.Methods {
		requests = append(requests, each.MethodName)
	}
	for _, each := range api.Daemon_ServiceDesc.Streams {
		requests = append(requests, each.StreamName)
	}
	table := section(t, "Requests")
	for _, request := range requests {
		if !strings.Contains(table, "`"+request+"`") {
			t.Errorf("the request %s is not described", request)
		}
	}
}

// TestLimitsAreShown: --status shows a user all limits that phosd.toml has for users, although
// none is set, and docs/security.md names them.
func TestLimitsAreShown(t *testing.T) {
	want := []string{"sessions.programs_per_user"}
	settings := reflect.TypeFor[config.Users]()
	for i := range settings.NumField() {
		if field := settings.Field(i); field.Type != reflect.TypeFor[config.Interval]() { // a time is held by no process
			want = append(want, "users."+field.Tag.Get("toml"))
		}
	}
	b := bob(t)
	text, err := b.cli(start(t), "--status", "--json").Output()
	var status struct {
		Limits []struct{ Key string }
	}
	if err == nil {
		err = json.Unmarshal(text, &status)
	}
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, limit := range status.Limits {
		shown = append(shown, limit.Key)
	}
	table := section(t, "Requests")
	for _, key := range want {
		if !slices.Contains(shown, key) {
			t.Errorf("--status does not show %s: %v", key, shown)
		}
		if !strings.Contains(table, "`"+key+"`") {
			t.Errorf("docs/security.md does not say what %s limits", key)
		}
	}
}
