package replay

import (
	"strings"
	"testing"
	"time"
)

func TestExtremes(t *testing.T) {
	table, err := ReadThroughput(strings.NewReader("nodes,samples_per_s\n2,0.000001\n1,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := ReadTrace(strings.NewReader("time_s,node,event\n10,0,down\n1e9,1,down\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, samples := range []int64{1, 100_000, 1 << 30} {
		r, err := (&Run{Throughput: table, Trace: trace, SamplesPerStep: samples}).Replay()
		if err != nil {
			t.Fatal(err)
		}
		if want := int((1_000_000_000 - 11 + samples) / samples); r.Lost+r.Useful+r.Idle+r.Unfinished != r.End ||
			(samples < 1000 && r.Steps+1 < want) {
			t.Errorf("%d samples a step: %+v, wanted about %d steps", samples, r, want)
		}
	}
	if _, err := (&Run{Throughput: table, Trace: trace, SamplesPerStep: 1, Ready: 1 << 61}).Replay(); err == nil {
		t.Error("Ready of 70 years was accepted")
	}
	if _, err := ReadTrace(strings.NewReader("time_s,node,event\n9e9,0,down\n")); err == nil {
		t.Error("an event in 285 years was accepted")
	}
}

func TestMadeUpExtremes(t *testing.T) {
	rare := Failures{Nodes: 50, Between: maxTime, BackAfter: maxTime, Together: 1, Length: maxTime, Seed: 1}
	if err := rare.Check(); err != nil {
		t.Fatal(err)
	}
	for _, e := range rare.Generate() {
		if e.At < 0 || e.At >= maxTime {
			t.Fatalf("an event at %v", e.At)
		}
	}
	for _, f := range []Failures{
		{Nodes: 1_000_000, Between: time.Second, BackAfter: time.Second, Together: 1, Length: 1000 * time.Hour},
		{Nodes: 1, Between: maxTime + 1, Together: 1, Length: time.Hour},
	} {
		if f.Check() == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
}
