package throughput

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %.12g, want %.12g", what, got, want)
	}
}

// worked is a model whose numbers can be computed by hand.
var worked = &Model{
	Name: "worked", Batch: 100, MaxBatch: 400, Local: 100, Noise: 300,
	Step: StepTime{AlphaC: 0.1, BetaC: 0.01, AlphaN: 0.9, BetaN: 0.1, AlphaR: 0.2, BetaR: 0.05, Gamma: 1},
}

func TestStepTimeByHand(t *testing.T) {
	s := worked.Step
	near(t, "one GPU", s.Seconds(1, 1, 100, 1), 1.1)                  // 0.1 + 1
	near(t, "two on a node", s.Seconds(1, 2, 50, 1), 0.8)             // 0.6 + 0.2
	near(t, "four on a node", s.Seconds(1, 4, 25, 1), 0.65)           // 0.35 + 0.2 + 2*0.05
	near(t, "four on two nodes", s.Seconds(2, 4, 25, 1), 1.45)        // 0.35 + 0.9 + 2*0.1
	near(t, "in two pieces", s.Seconds(1, 2, 200, 2), 1.1+1.1+0.2)    // the exchange is with the last
	near(t, "no overlap, rate", worked.Rate(1, 4), 100/0.65)          // batch / time
	near(t, "two pieces, rate", worked.Throughput(1, 1, 200), 1/.011) // 200 / (2*1.1)
	s.Gamma = 2
	near(t, "half overlap", s.Seconds(1, 2, 50, 1), math.Hypot(0.6, 0.2))
}

func TestEfficiencyAndGoodputByHand(t *testing.T) {
	near(t, "own batch", worked.Efficiency(100), 1)
	near(t, "four times the batch", worked.Efficiency(400), 400.0/700)
	// On 4 GPUs of two nodes a batch of 400 takes 1.1 + 1.1 s and counts 4/7.
	near(t, "throughput", worked.Throughput(2, 4, 400), 400/2.2)
	g, batch := worked.Goodput(2, 4)
	// The value per second is 400*b / ((300+b)*(1.2+b/400)): greatest at b*b = 300*480.
	if best := math.Sqrt(300 * 480); math.Abs(batch-best) > 0.02*best {
		t.Errorf("the best batch is %g, want about %g", batch, best)
	}
	at := func(b float64) float64 { return b / (1.2 + b/400) * 400 / (300 + b) }
	if want := at(math.Sqrt(300 * 480)); g > want+1e-9 || g < want*0.999 {
		t.Errorf("goodput is %g, want %g", g, want)
	}
	still := *worked
	still.Noise = 0
	if g, batch := still.Goodput(2, 4); g != still.Rate(2, 4) || batch != 100 {
		t.Errorf("a model without noise adapts its batch to %g", batch)
	}
}

// TestBuiltinModels: goodput with the best batch is at least that of the own batch, on any number
// of GPUs.
func TestBuiltinModels(t *testing.T) {
	table := NewTable()
	for _, name := range table.Models() {
		m := table.Model(name)
		for gpus := 1; gpus <= 64; gpus++ {
			for nodes := 1; nodes <= min(2, gpus); nodes++ {
				g, batch := m.Goodput(nodes, gpus)
				if g < m.Rate(nodes, gpus) || batch < m.Batch || batch > m.MaxBatch*(1+1e-9) || math.IsNaN(g) {
					t.Errorf("%s on %d GPUs of %d nodes: goodput %g with %g", name, gpus, nodes, g, batch)
				}
			}
		}
		if m.Rate(1, 4) < 1.3*m.Rate(1, 1) {
			t.Errorf("%s gains nothing from 4 GPUs", name)
		}
		if m.On("V100", 1, 1) != 1 || m.On("H100", 1, 1) <= m.On("A100", 1, 1) || m.On("K80", 1, 1) >= 1 {
			t.Errorf("%s: types of GPU are in disorder", name)
		}
	}
	if table.Model("no such") != table.Model(Unknown) || table.Model("ResNet50") != table.Model("resnet50") {
		t.Error("names are not found")
	}
}

func TestReadMeasured(t *testing.T) {
	models, err := Read(
		strings.NewReader(
			"gpus,model,rate,gpu_type,nodes\n1,a,10,V100,\n4,a,30,V100,1\n8,a,40,V100,2\n2,a,44,H100,1\n2,b,7,,\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(models...)
	a, b := table.Model("a"), table.Model("B")
	near(t, "a point", a.Rate(1, 4), 30)
	near(t, "between points", a.Rate(1, 2), 10+20.0/3)
	near(t, "beyond", a.Rate(1, 16), 30)
	near(t, "on nodes", a.Rate(2, 8), 40)
	near(t, "fewer than measured", a.Rate(2, 4), 20)
	near(t, "another type", a.On("H100", 1, 2), 44/(10+20.0/3))
	near(t, "another type on one", a.On("H100", 1, 1), 2.2)
	near(t, "a type of which we know", a.On("K80", 1, 1), table.Model(Unknown).Rates["K80"])
	near(t, "b", b.Rate(1, 1), 3.5)
	if g, _ := a.Goodput(1, 4); g != 30 {
		t.Errorf("a measured model has a goodput of %g", g)
	}
}

func TestReadParameters(t *testing.T) {
	models, err := Read(
		strings.NewReader(
			"model,batch,alpha_c,beta_c,alpha_n,beta_n,alpha_r,beta_r,gamma,noise,max_batch,local_batch,on:H100\n" +
				"w,100,.1,.01,.9,.1,.2,.05,1,300,400,100,3\nbert,10,1,1,1,1,1,1,1,,,,\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(models...)
	w := table.Model("w")
	near(t, "rate", w.Rate(1, 4), worked.Rate(1, 4))
	near(t, "type", w.On("H100", 1, 1), 3)
	bert := table.Model("bert")
	if bert.Batch != 10 || bert.MaxBatch != 10 || bert.Local != 10 || bert.Noise != 0 {
		t.Errorf("bert is %+v", bert)
	}
	near(t, "types of our own", bert.On("H100", 1, 1), tensor["H100"])
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	const parameters = "model,batch,alpha_c,beta_c,alpha_n,beta_n,alpha_r,beta_r,gamma\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "line 1: a row of column names is missing"},
		"no rows":        {"model,gpus,rate\n", "line 1: no rows"},
		"a column":       {"model,gpus\na,1\n", "line 1: column rate is missing"},
		"twice":          {"model,gpus,rate,rate\n", "line 1: column rate is listed twice"},
		"negative":       {"model,gpus,rate\na,1,5\na,2,-5\n", `line 3: rate is "-5", not a number`},
		"no number":      {"model,gpus,rate\na,1,fast\n", `line 2: rate is "fast"`},
		"not finite":     {"model,gpus,rate\na,1,NaN\n", `line 2: rate is "NaN"`},
		"no GPUs":        {"model,gpus,rate\na,0,5\n", `line 2: gpus is "0", not a whole number`},
		"no name":        {"model,gpus,rate\n,1,5\n", `line 2: model is "", not a name`},
		"again":          {"model,gpus,rate\na,1,5\na,1,6\n", `line 3: gpus is "1"`},
		"nodes":          {"model,gpus,rate,nodes\na,1,5,2\n", `line 2: nodes is "2", not at most the number of GPUs`},
		"short":          {"model,gpus,rate\na,1\n", "line 2: 2 fields, and the first row names 3 columns"},
		"quotes":         {"model,gpus,rate\n\"a,1,2\n", "line 2"},
		"gamma":          {parameters + "a,1,1,1,1,1,1,1,0.5\n", `line 2: gamma is "0.5", not a number of at least 1`},
		"model twice":    {parameters + "a,1,1,1,1,1,1,1,1\nA,1,1,1,1,1,1,1,1\n", `line 3: model is "A", not a new one`},
		"empty required": {parameters + "a,1,,1,1,1,1,1,1\n", `line 2: alpha_c is "", not a number`},
	} {
		_, err := Read(strings.NewReader(c.text))
		var bad *InputError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("model,gpus,rate\na,1,5\na,2,9\n")
	f.Add("model,gpus,rate,gpu_type,nodes\na,4,5,H100,2\na,1,2,V100,1\n")
	f.Add("model,batch,alpha_c,beta_c,alpha_n,beta_n,alpha_r,beta_r,gamma,on:H100\na,1,1,1,1,1,1,1,1,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		models, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		table := NewTable(models...)
		for _, m := range models {
			m := table.Model(m.Name)
			for _, gpus := range []int{1, 3, 8, 100} {
				rate, on := m.Rate(min(2, gpus), gpus), m.On("H100", 1, gpus)
				if !(rate > 0) || !(on > 0) || math.IsInf(rate, 0) {
					t.Fatalf("%s has a rate of %g, %g on a H100", m.Name, rate, on)
				}
			}
		}
	})
}
