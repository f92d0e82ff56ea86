package pipeline

import (
	"bytes"
	"testing"
)

// FuzzProfile checks that any accepted profile can be planned with, and is unchanged after it is
// written and read.
func FuzzProfile(f *testing.F) {
	f.Add(
		[]byte(
			`{"layers":[{"name":"a","forward_ms":1.5,"backward_ms":3e-3,"state_bytes":7,` +
				`"allreduce_in_node_ms":{"2":0.25},"allreduce_across_ms":{"4":1}}]}`,
		),
	)
	f.Add([]byte("name,forward_ms,backward_ms,state_bytes,allreduce_in_node_ms_2\na,1,2,3,0.5\nb,1e1,2,,\n"))
	f.Add([]byte(`{"layers":[{"forward_ms":1e999}]}`))
	f.Add([]byte("forward_ms,backward_ms\n1,2\n3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadProfile(bytes.NewReader(text))
		if err != nil {
			return
		}
		if all := p.Time(0, p.Len(), 1); all <= 0 || all > int64(maxTime) {
			t.Fatalf("all layers take %d", all)
		}
		for _, width := range p.Widths(64) {
			if took := p.Time(0, 1, width); took <= 0 && p.Time(0, 1, 1) > 0 {
				t.Fatalf("a stage on %d GPUs takes %d", width, took)
			}
		}
		again, err := NewProfile(p.Layers)
		if err != nil || again.Hash() != p.Hash() {
			t.Fatalf("NewProfile with the same layers: %v", err)
		}
	})
}

// FuzzPlan checks that a plan's file is fully validated.
func FuzzPlan(f *testing.F) {
	f.Add(
		[]byte(
			`{"pipelines":[{"nodes":[0],"template":1,"microbatches":4}],"iteration_ms":1,"hash":"0",` +
				`"spec":{"nodes":1,"gpus_per_node":1,"microbatches":4},` +
				`"templates":[{"nodes":1,"cuts":[0,1],"t_ms":8,"microbatches":4,` +
				`"stages":[{"from":0,"to":1,"node":0,"gpus":1,"time_ms":2}]}],` +
				`"profile_hash":"0","profile":{"layers":[{"name":"a","forward_ms":1,"backward_ms":1}]}}`,
		),
	)
	f.Add([]byte(`{"templates":[{"nodes":0}],"profile":{"layers":[{"forward_ms":1,"backward_ms":1}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := DecodePlan(text)
		if err != nil {
			return
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestByteNumbers: 1e9 and 1000000000.0 are numbers of bytes.
func TestByteNumbers(t *testing.T) {
	p, err := ReadProfile(
		bytes.NewReader(
			[]byte(`{"layers":[{"forward_ms":1,"backward_ms":1,"state_bytes":1e9,"activation_bytes":33554432.0}]}`),
		),
	)
	if err != nil || p.Layers[0].StateBytes != 1e9 || p.Layers[0].ActivationBytes != 1<<25 {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		`{"layers":[{"name":"a","forward_ms":1,"backward_ms":1,"state_bytes":"many"}]}`: "",
		`{"layers":[{"name":"a","forward_ms":1,"backward_ms":1,"state_bytes":-1}]}`: "layer 0 (a): -1 bytes of " +
			"state, 0 of activations; wanted from 0 to 2^49 bytes",
		`{"layers":[{"name":"a","forward_ms":1,"backward_ms":1,"state_bytes":1e40}]}`: `layer 0 (a): state_bytes: ` +
			`"1e40" is too large; wanted a number of bytes`,
	} {
		if _, err := ReadProfile(bytes.NewReader([]byte(text))); err == nil || want != "" && err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestParseMilliseconds(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1_000_000, "0.0000005": 1, "0.00000049": 0, "1e-3": 1000,
		"2.5E2": 250_000_000, "-1": -1_000_000,
	} {
		if got, err := ParseMilliseconds(text); err != nil || int64(got) != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "1/3", "inf", "NaN", "1e99", "0x10", "1e41", "1_000", "--1"} {
		if got, err := ParseMilliseconds(text); err == nil {
			t.Errorf("%q parsed as %v", text, got)
		}
	}
	for ns, want := range map[int64]string{0: "0", 1: "0.000001", 1_500_000: "1.5", -2_000_001: "-2.000001"} {
		if got := Milliseconds(ns); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
}
