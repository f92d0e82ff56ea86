package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Limits of a cluster.
const (
	maxGPUsPerNode = 64
	maxNodes       = 1_000_000
)

// machines are the flags that describe the cluster.
type machines struct {
	Nodes       int    `json:"nodes,omitempty"`
	GPUsPerNode int    `json:"gpus_per_node,omitempty"`
	GPUTypes    string `json:"gpu_types,omitempty"`
	NodesFile   string `json:"nodes_file,omitempty"`
}

// cluster returns the nodes; nil if no flag is set.
func (m *machines) cluster() ([]cluster.Node, error) {
	ways := 0
	for _, each := range []bool{m.Nodes != 0 || m.GPUsPerNode != 0, m.GPUTypes != "", m.NodesFile != ""} {
		if each {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, &verb.UsageError{
			Text: "describe the cluster in one way: --nodes N --gpus-per-node G, or --gpu-types LIST, or --nodes-file FILE",
		}
	case ways == 0:
		return nil, nil
	case m.GPUTypes != "":
		return m.parseGPUTypes()
	case m.NodesFile != "":
		return readNodes(m.NodesFile)
	case m.Nodes == 0:
		return nil, &verb.UsageError{Text: "--nodes is missing: how many nodes the cluster has"}
	case m.Nodes < 1 || m.Nodes > maxNodes:
		return nil, &verb.UsageError{Text: fmt.Sprintf("--nodes takes 1 to %d, not %d", maxNodes, m.Nodes)}
	case m.GPUsPerNode == 0:
		return nil, &verb.UsageError{Text: "--gpus-per-node is missing: how many GPUs each of the nodes has"}
	case m.GPUsPerNode < 1 || m.GPUsPerNode > maxGPUsPerNode:
		return nil, &verb.UsageError{
			Text: fmt.Sprintf("--gpus-per-node takes 1 to %d, not %d", maxGPUsPerNode, m.GPUsPerNode),
		}
	}
	return appendNodes(nil, m.Nodes, m.GPUsPerNode, ""), nil
}

// appendNodes appends n equal nodes.
func appendNodes(nodes []cluster.Node, n, gpus int, gpuType string) []cluster.Node {
	for range n {
		id := cluster.NodeID(len(nodes))
		nodes = append(nodes, cluster.Node{ID: id, Name: fmt.Sprintf("node%d", id), GPUs: gpus, GPUType: gpuType})
	}
	return nodes
}

// parseGPUTypes parses H100:16x8,A100:32x4: 16 nodes of 8 GPUs, then 32 of 4.
func (m *machines) parseGPUTypes() (nodes []cluster.Node, err error) {
	for part := range strings.SplitSeq(m.GPUTypes, ",") {
		gpuType, counts, _ := strings.Cut(part, ":")
		n, gpus, _ := strings.Cut(counts, "x")
		count, errCount := strconv.Atoi(n)
		each, errEach := strconv.Atoi(gpus)
		if gpuType == "" || errCount != nil || errEach != nil || count < 1 || count > maxNodes || each < 1 ||
			each > maxGPUsPerNode {
			return nil, &verb.UsageError{
				Text: fmt.Sprintf(
					"--gpu-types takes TYPE:NODESxGPUS, such as H100:16x8,A100:32x4, with up to %d GPUs per node, not %q",
					maxGPUsPerNode,
					part,
				),
			}
		}
		nodes = appendNodes(nodes, count, each, gpuType)
	}
	return nodes, nil
}

// fileError is invalid input in one of our files.
type fileError struct {
	file   string
	line   int
	column string
	value  string
	want   string
}

func (e *fileError) Error() string {
	return fmt.Sprintf("%s:%d: %s: got %q, want %s", e.file, e.line, e.column, e.value, e.want)
}

// csvFile reads a small CSV file whose first row names the columns.
type csvFile struct {
	file    string
	in      *csv.Reader
	columns []string
	row     []string
	line    int
}

func openCSV(file string, in io.Reader, required, optional []string) (*csvFile, error) {
	s := &csvFile{file: filepath.Base(file), in: csv.NewReader(in)}
	s.in.FieldsPerRecord = -1
	err := s.read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file is empty, want a row of columns: %s", s.file, strings.Join(required, ","))
	} else if err != nil {
		return nil, err
	}
	s.columns = slices.Clone(s.row)
	for _, column := range required {
		if !slices.Contains(s.columns, column) {
			return nil, &fileError{s.file, 1, "columns", strings.Join(s.columns, ","), "a column " + column}
		}
	}
	for _, column := range s.columns {
		if !slices.Contains(required, column) && !slices.Contains(optional, column) {
			return nil, &fileError{
				s.file,
				1,
				"columns",
				column,
				"one out of " + strings.Join(slices.Concat(required, optional), ", "),
			}
		}
	}
	return s, nil
}

func (s *csvFile) read() error {
	row, err := s.in.Read()
	if errors.Is(err, io.EOF) {
		return err
	} else if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	s.row = row
	s.line, _ = s.in.FieldPos(0)
	if s.columns != nil && len(row) != len(s.columns) {
		return &fileError{s.file, s.line, "row", strings.Join(row, ","), fmt.Sprintf("%d values", len(s.columns))}
	}
	return nil
}

// value returns the current row's value in a column, or "" if the file lacks the column.
func (s *csvFile) value(column string) string {
	if i := slices.Index(s.columns, column); i >= 0 {
		return strings.TrimSpace(s.row[i])
	}
	return ""
}

// wrong returns an error about a value of the current row.
func (s *csvFile) wrong(column, want string) error {
	return &fileError{s.file, s.line, column, s.value(column), want}
}

// readNodes reads a cluster: a row for each kind of node, count of them.
func readNodes(path string) (nodes []cluster.Node, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open nodes: %w", err)
	}
	defer file.Close()
	s, err := openCSV(path, file, []string{"gpus"}, []string{"name", "gpu_type", "memory_gib", "rack", "count"})
	if err != nil {
		return nil, err
	}
	named := map[string]int{}
	for {
		if err := s.read(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		from := len(nodes)
		if nodes, err = s.node(nodes); err == nil {
			err = s.distinct(nodes[from:], named)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%s: want at least one node", s.file)
	}
	return nodes, nil
}

// distinct returns an error if a node's name is taken: named is the line of each name. Otherwise
// node events would be ambiguous.
func (s *csvFile) distinct(nodes []cluster.Node, named map[string]int) error {
	for i := range nodes {
		name := nodes[i].Name
		if line, twice := named[name]; twice {
			return &fileError{
				s.file,
				s.line,
				"name",
				name,
				fmt.Sprintf("a name of its own; line %d has the same", line),
			}
		}
		named[name] = s.line
	}
	return nil
}

// node appends the nodes of a row.
func (s *csvFile) node(nodes []cluster.Node) ([]cluster.Node, error) {
	gpus, err := strconv.Atoi(s.value("gpus"))
	if err != nil || gpus < 0 || gpus > maxGPUsPerNode {
		return nil, s.wrong("gpus", fmt.Sprintf("0 to %d", maxGPUsPerNode))
	}
	count := 1
	if text := s.value("count"); text != "" {
		if count, err = strconv.Atoi(text); err != nil || count < 1 || count+len(nodes) > maxNodes {
			return nil, s.wrong("count", "the number of such nodes")
		}
	}
	var bytes int64
	if text := s.value("memory_gib"); text != "" {
		gib, err := strconv.ParseFloat(text, 64)
		if err != nil || !(gib >= 0) || gib > 1e6 {
			return nil, s.wrong("memory_gib", "the memory of one GPU, in GiB")
		}
		bytes = int64(math.Round(gib * (1 << 30)))
	}
	from := len(nodes)
	nodes = appendNodes(nodes, count, gpus, s.value("gpu_type"))
	for i := from; i < len(nodes); i++ {
		nodes[i].GPUMemoryBytes, nodes[i].Rack = bytes, s.value("rack")
		if name := s.value("name"); name != "" {
			nodes[i].Name = name
			if count > 1 {
				nodes[i].Name = fmt.Sprintf("%s-%d", name, i-from)
			}
		}
	}
	return nodes, nil
}
