package manual

import (
	"reflect"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/worker/jobfile"
)

// TestPagesAreComplete checks that every key of the configuration files and every flag of phosd is
// on its page.
func TestPagesAreComplete(t *testing.T) {
	want := func(page, key string) {
		t.Helper()
		if text := Pages("/var/log/phosd.log")[page](); !strings.Contains(text, "\n.B "+key) {
			t.Errorf("page %s does not have %s", page, key)
		}
	}
	for _, key := range config.Keys() {
		want("phosd.toml.5", key[strings.LastIndexByte(key, '.')+1:])
		want("phosd.8", verb.Roff("--"+strings.NewReplacer(".", "-", "_", "-").Replace(key)))
	}
	for _, table := range []any{jobfile.File{}, jobfile.Checkpoint{}} {
		for field := range reflect.TypeOf(table).NumField() {
			want("pos.yaml.5", reflect.TypeOf(table).Field(field).Tag.Get("yaml"))
		}
	}
}
