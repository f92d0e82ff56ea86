package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// planFile is a plan in JSON. It holds everything that planning again needs, including the profile,
// so that a node needs no other file.
type planFile struct {
	Pipelines   []pipelineFile   `json:"pipelines"`
	Spare       []cluster.NodeID `json:"spare,omitempty"`
	Machines    Machines         `json:"machines,omitempty"`
	Iteration   json.Number      `json:"iteration_ms"`
	AtLeast     json.Number      `json:"at_least_ms,omitempty"`
	Hash        Hash             `json:"hash"`
	Spec        specFile         `json:"spec"`
	Templates   []TemplateFile   `json:"templates"`
	ProfileHash Hash             `json:"profile_hash"`
	Profile     profileFile      `json:"profile"`

	*Recovery
}

// Recovery describes in a plan's file how it follows from the plan before, for the program that
// carries it out. It is not part of the plan.
type Recovery struct {
	// Ways are what was compared, the chosen one first.
	Ways      any   `json:"ways"`
	Steps     any   `json:"steps"`
	Transfers any   `json:"transfers"`
	Lost      any   `json:"lost"`
	Bytes     int64 `json:"bytes"`
}

type pipelineFile struct {
	Nodes        []cluster.NodeID `json:"nodes"`
	Template     int              `json:"template"`
	Microbatches int              `json:"microbatches"`
}

type specFile struct {
	Nodes          int   `json:"nodes"`
	GPUsPerNode    int   `json:"gpus_per_node"`
	GPUMemoryBytes int64 `json:"gpu_memory_bytes"`
	Faults         int   `json:"faults"`
	Microbatches   int   `json:"microbatches"`
}

// TemplateFile is a template in JSON.
type TemplateFile struct {
	Nodes        int         `json:"nodes"`
	Cuts         []int       `json:"cuts"`
	Time         json.Number `json:"t_ms"`
	Microbatches int         `json:"microbatches"` // for which t_ms was computed
	Stages       []StageFile `json:"stages"`
}

// StageFile is a stage in JSON.
type StageFile struct {
	From int         `json:"from"`
	To   int         `json:"to"`
	Node int         `json:"node"`
	GPUs int         `json:"gpus"`
	Time json.Number `json:"time_ms"`
}

func milliseconds(ns int64) json.Number { return json.Number(Milliseconds(ns)) }

// File returns the template in its JSON form.
func (t *Template) File() TemplateFile {
	f := TemplateFile{Nodes: t.Nodes, Cuts: t.Cuts(), Time: milliseconds(t.Time()), Microbatches: t.Microbatches}
	for _, s := range t.Stages {
		f.Stages = append(f.Stages, StageFile{s.From, s.To, s.Node, s.GPUs, milliseconds(s.Time)})
	}
	return f
}

// template returns the template that a file describes.
func (f *TemplateFile) template() (*Template, error) {
	t := &Template{Nodes: f.Nodes, Microbatches: f.Microbatches}
	for i, s := range f.Stages {
		took, err := ParseMilliseconds(s.Time.String())
		if err != nil {
			return nil, &InputError{
				Where:   fmt.Sprintf("template for %d nodes, stage %d", f.Nodes, i),
				Problem: "time_ms: " + err.Error(),
			}
		}
		t.Stages = append(t.Stages, Stage{From: s.From, To: s.To, Node: s.Node, GPUs: s.GPUs, Time: int64(took)})
	}
	return t, nil
}

// Encode returns a plan as JSON with a final newline, with the recovery if it is not nil.
func (p *Plan) Encode(recovery *Recovery) ([]byte, error) {
	f := planFile{
		Recovery: recovery, Spare: p.Spare, Machines: p.Machines, Iteration: milliseconds(p.IterationTime()), Hash: p.Hash(),
		Spec:        specFile(p.Spec),
		ProfileHash: p.Profile.Hash(), Profile: p.Profile.file(),
	}
	if p.AtLeast > 0 {
		f.AtLeast = milliseconds(p.AtLeast)
	}
	for _, each := range p.Pipelines {
		f.Pipelines = append(f.Pipelines, pipelineFile{each.Nodes, each.Template, each.Microbatches})
	}
	for _, t := range p.Templates {
		f.Templates = append(f.Templates, t.File())
	}
	text, err := json.MarshalIndent(f, "", " ")
	return append(text, '\n'), err
}

// file returns the profile in its JSON form.
func (p *Profile) file() (f profileFile) {
	for i := range p.Layers {
		l := &p.Layers[i]
		f.Layers = append(f.Layers, layerFile{
			Name: l.Name, Forward: milliseconds(int64(l.Forward)), Backward: milliseconds(int64(l.Backward)),
			StateBytes: bytesNumber(
				l.StateBytes,
			), ActivationBytes: bytesNumber(l.ActivationBytes), InNode: timesFile(l.InNode), Across: timesFile(l.Across),
		})
	}
	return f
}

func bytesNumber(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// timesFile returns times by members in their JSON form.
func timesFile(times map[int]time.Duration) map[string]json.Number {
	if len(times) == 0 {
		return nil
	}
	f := map[string]json.Number{}
	for members, took := range times {
		f[fmt.Sprint(members)] = milliseconds(int64(took))
	}
	return f
}

// DecodePlan reads a plan and validates it completely: it returns an error if parts are
// inconsistent or the hash differs.
func DecodePlan(text []byte) (*Plan, error) {
	var f planFile
	if err := decodeStrictly(text, &f); err != nil {
		return nil, err
	}
	layers, err := f.Profile.layers()
	if err != nil {
		return nil, err
	}
	p := &Plan{Spec: Spec(f.Spec), Spare: f.Spare, Machines: f.Machines}
	if p.Profile, err = NewProfile(layers); err != nil {
		return nil, err
	}
	if p.Profile.Hash() != f.ProfileHash {
		return nil, &InputError{
			Where: "profile", Problem: fmt.Sprintf("has the hash %s, the plan is of %s", p.Profile.Hash(), f.ProfileHash),
			Want: "the profile that the plan was made for",
		}
	}
	for i := range f.Templates {
		t, err := f.Templates[i].template()
		if err != nil {
			return nil, err
		}
		p.Templates = append(p.Templates, t)
	}
	for _, each := range f.Pipelines {
		p.Pipelines = append(p.Pipelines, Pipeline{each.Template, each.Nodes, each.Microbatches})
	}
	if err := p.check(); err != nil {
		return nil, &InputError{Problem: err.Error(), Want: "a plan as it was written"}
	}
	if p.Hash() != f.Hash {
		return nil, &InputError{
			Where:   "hash",
			Problem: fmt.Sprintf("the plan is %s, not %s: it was changed", p.Hash(), f.Hash),
		}
	}
	if err := f.derived(p); err != nil {
		return nil, err
	}
	return p, nil
}

// derived checks the derived values in a file, which no hash covers, against the plan, because
// other programs may read them. They may be missing.
func (f *planFile) derived(p *Plan) error {
	if err := sameTime("iteration_ms", f.Iteration, p.IterationTime()); err != nil {
		return err
	}
	for i, t := range p.Templates {
		at := fmt.Sprintf("template for %d nodes: ", t.Nodes)
		if err := sameTime(at+"t_ms", f.Templates[i].Time, t.Time()); err != nil {
			return err
		}
		if cuts := f.Templates[i].Cuts; cuts != nil && !slices.Equal(cuts, t.Cuts()) {
			return &InputError{
				Where:   at + "cuts",
				Problem: fmt.Sprintf("%v, and its stages have %v", cuts, t.Cuts()),
				Want:    "a plan as it was written",
			}
		}
	}
	return nil
}

// sameTime returns an error if a time in a file differs from the plan's.
func sameTime(where string, written json.Number, want int64) error {
	if written == "" {
		return nil
	}
	took, err := ParseMilliseconds(written.String())
	if err != nil || int64(took) != want {
		return &InputError{
			Where:   where,
			Problem: fmt.Sprintf("%s, and the plan's is %s", written, Milliseconds(want)),
			Want:    "a plan as it was written",
		}
	}
	return nil
}

// check validates a plan.
func (p *Plan) check() error {
	if len(p.Templates) == 0 || len(p.Pipelines) == 0 {
		return fmt.Errorf("%d templates, %d pipelines", len(p.Templates), len(p.Pipelines))
	}
	if s := p.Spec; s.Faults < 0 || s.Faults >= MaxNodes || s.GPUsPerNode < 1 || s.Microbatches < 1 ||
		s.Microbatches > MaxMicrobatches {
		return fmt.Errorf(
			"the specification has %d faults, %d GPUs a node, %d microbatches",
			s.Faults,
			s.GPUsPerNode,
			s.Microbatches,
		)
	}
	for i, t := range p.Templates {
		if t.Nodes != p.Templates[0].Nodes+i {
			return fmt.Errorf(
				"the templates' sizes are not consecutive: %d after %d",
				t.Nodes,
				p.Templates[0].Nodes+i-1,
			)
		}
		if len(t.Stages) == 0 {
			return fmt.Errorf("the template for %d nodes has no stages", t.Nodes)
		}
		if err := t.check(p.Profile, p.Spec.GPUsPerNode); err != nil {
			return err
		}
	}
	for i, each := range p.Pipelines {
		if p.Template(each.Template) == nil || len(each.Nodes) != each.Template || each.Microbatches < 1 ||
			each.Microbatches > MaxMicrobatches {
			return fmt.Errorf(
				"pipeline %d: template %d, %d nodes, %d microbatches",
				i,
				each.Template,
				len(each.Nodes),
				each.Microbatches,
			)
		}
	}
	nodes := p.Nodes()
	for i, node := range nodes {
		if node < 0 || i > 0 && nodes[i-1] == node {
			return fmt.Errorf("node %d is listed twice, or negative", node)
		}
	}
	if err := p.Machines.Check(); err != nil {
		return err
	}
	if !slices.EqualFunc(p.Machines, p.Machines.Among(nodes), slices.Equal) {
		return fmt.Errorf("the machines are not those of the plan's nodes")
	}
	return nil
}

// Find returns the pipeline of a node; -1 for a spare node. ok is false if the node is not in the
// plan.
func (p *Plan) Find(node cluster.NodeID) (at int, ok bool) {
	for i, each := range p.Pipelines {
		if slices.Contains(each.Nodes, node) {
			return i, true
		}
	}
	return -1, slices.Contains(p.Spare, node)
}
