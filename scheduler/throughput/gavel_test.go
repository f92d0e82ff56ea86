package throughput

import (
	"errors"
	"strings"
	"testing"
)

// TestGavelTable reads a table of the form that Gavel publishes: types differ by model, names of
// types may differ in case from the cluster's, and jobs on several nodes have their own rates.
func TestGavelTable(t *testing.T) {
	models, err := Read(strings.NewReader(` {
"k80": {"('LM (batch size 5)', 1)": {"null": 2.0}, "('A3C', 1)": {"null": 4, "('LM (batch size 5)', 1)": [1, 2]}},
"v100": {"('LM (batch size 5)', 1)": {"null": 16.0}, "('LM (batch size 5)', 2)": {"null": 20.0}, "('A3C', 1)": {"null": 8}},
"v100_unconsolidated": {"('LM (batch size 5)', 2)": {"null": 5.0}},
"p100": {"('LM (batch size 5)', 1)": {"null": 0.0}, "('A3C', 1)": {"null": 6}}}`))
	if err != nil || len(models) != 2 {
		t.Fatal(models, err)
	}
	table := NewTable(models...).Common(Common{Types: []string{"K80", "V100"}, Reference: "V100"})
	lm, a3c := table.Model("LM (batch size 5)"), table.Model("A3C")
	near(t, "lm on a K80", lm.On("K80", 1, 1), 2./16)
	near(t, "lm on a V100", lm.On("V100", 1, 1), 1)
	near(t, "a3c on a K80", a3c.On("K80", 1, 1), 0.5)
	near(t, "lm on two nodes", lm.Rate(2, 2)/lm.Rate(1, 2), 0.25)
	if !lm.Knows("K80") || !lm.Knows("V100") {
		t.Error("the types of the cluster are unknown")
	}
	for _, text := range []string{
		`{"v100": {"LM": {"null": 1}}}`, `{"v100": {"('LM', 0)": {"null": 1}}}`, `{}`, `{"v100": 1}`, `{"v100": {"('LM', 1)": {"null": -1}}}`,
		`{`,
	} {
		var bad *InputError
		if _, err := Read(strings.NewReader(text)); !errors.As(err, &bad) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
