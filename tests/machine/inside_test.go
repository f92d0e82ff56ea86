package machine

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestInside runs those tests of other packages in a machine that are often skipped: they need
// systemd, or a kernel that tracks writes.
func TestInside(t *testing.T) {
	m := boot(t)
	// The tests find the workloads under the same path as on the host.
	workloads := harness.Path("tests", "workloads")
	m.put(workloads, workloads)
	m.put(harness.Bin(), "/opt/bin")
	for _, test := range []struct{ pkg, run, requires string }{
		{"tests/scenarios", "TestSystemd", "systemd,python,criu,root,build"},
		{"criu", "TestPrecopy", "criu,root"},
	} {
		t.Run(test.pkg+" "+test.run, func(t *testing.T) {
			dir := t.TempDir()
			m.host("go", "test", "-c", "-o", filepath.Join(dir, "tests"), harness.Path(test.pkg))
			m.put(dir, "/opt/tests")
			m.run("mkdir -p " + harness.Path(test.pkg))
			said, err := m.try("root", "cd "+harness.Path(test.pkg)+"\nexport REQUIRE="+test.requires+
				" PHOS_BIN=/opt/bin CRIU=/usr/local/lib/phos/criu/criu\n/opt/tests/tests -test.v -test.timeout 1h -test.run '"+
				test.run+"'")
			t.Log(said)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(said, "--- SKIP") || !strings.Contains(said, "--- PASS") {
				t.Error("a test was skipped or did not run")
			}
		})
	}
}
