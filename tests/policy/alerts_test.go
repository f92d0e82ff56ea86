package policy

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

const (
	rulesFile     = "../../deploy/prometheus/phos.rules.yml"
	dashboardFile = "../../deploy/grafana/phos.json"
)

// TestAlerts checks the alert rules, and that they fire when they should.
func TestAlerts(t *testing.T) {
	harness.Promtool(t, "", "check", "rules", "--lint-fatal", rulesFile)
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("testdata/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "alerts.yml")
	if err := os.WriteFile(path, bytes.ReplaceAll(cases, []byte("RULES"), []byte(rules)), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Promtool(t, "", "test", "rules", path)
}

// TestDashboard checks each query of the dashboard as a rule.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			rules = append(rules, rule{"x:" + string(rune('a'+len(rules))), target.Expr})
		}
	}
	// JSON is YAML.
	file, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Promtool(t, "", "check", "rules", path)
}

// TestMetricNames checks that phosd, a controller or an agent has each metric that the rules, the
// dashboard and the manual name.
func TestMetricNames(t *testing.T) {
	var source []byte
	ofPhosd, _ := filepath.Glob("../../daemon/phosd/metrics/*.go") // the patterns are valid
	ofCluster, _ := filepath.Glob("../../cluster/metrics/*.go")
	for _, path := range slices.Concat(ofPhosd, ofCluster) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	metric := regexp.MustCompile(`\bphos_[a-z_]+`)
	suffix := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, path := range []string{rulesFile, dashboardFile, "../../docs/operating.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		names := metric.FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s: got no metric", path)
		}
		for _, name := range names {
			name = suffix.ReplaceAllString(name, "")
			if !bytes.Contains(source, []byte(`"`+name+`"`)) {
				t.Errorf("%s: no daemon has a metric %s", path, name)
			}
		}
	}
}
