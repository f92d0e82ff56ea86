package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestFolderCircles: in every folder, the subfolders (each with all that lies in it) and the
// package of the folder itself form a graph without a circle. So every folder can be read from the
// bottom up.
func TestFolderCircles(t *testing.T) {
	for _, circle := range circles(goList(t, "./...")) {
		t.Error(circle)
	}
}

func TestCirclesAreFound(t *testing.T) {
	packages := []pkg{
		testPackage(
			"a/one",
			"b/one",
		), testPackage("b/one", "c"), testPackage("b/two", "b"), testPackage("b"), testPackage("c"),
	}
	if got := circles(packages); len(got) != 0 {
		t.Errorf("%q in a tree without circles", got)
	}
	for _, test := range []struct {
		add  pkg
		want string
	}{
		{testPackage("c", "a/two"), "a -> b -> c -> a"},
		{testPackage("b", "b/two"), "b: . -> two -> ."},
		{testPackage("b/three", "a/one"), "a -> b -> a"},
	} {
		if got := circles(append(slices.Clone(packages), test.add)); !slices.Contains(
			got,
			"a circle of folders: "+test.want,
		) {
			t.Errorf("%q, want %s", got, test.want)
		}
	}
}

// circles finds one circle in each folder that has any.
func circles(packages []pkg) (found []string) {
	graphs := map[string]map[string][]string{} // folder -> child -> children that it imports from
	for _, p := range packages {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			folder, a, b := fork(from, to)
			if graphs[folder] == nil {
				graphs[folder] = map[string][]string{}
			}
			graphs[folder][a] = append(graphs[folder][a], b)
		}
	}
	for folder, graph := range graphs {
		if circle := circleIn(graph); circle != nil {
			where := ""
			if folder != "" {
				where = folder + ": "
			}
			found = append(found, fmt.Sprintf("a circle of folders: %s%s", where, strings.Join(circle, " -> ")))
		}
	}
	slices.Sort(found)
	return found
}

// fork returns the deepest folder that holds both packages, and the child of it that each is in;
// "." is the package of the folder itself.
func fork(from, to string) (folder, a, b string) {
	f, t := strings.Split(from, "/"), strings.Split(to, "/")
	n := 0
	for n < len(f) && n < len(t) && f[n] == t[n] {
		n++
	}
	child := func(parts []string) string {
		if n == len(parts) {
			return "."
		}
		return parts[n]
	}
	return strings.Join(f[:n], "/"), child(f), child(t)
}

// circleIn walks the graph depth first and returns the first circle, beginning and ending with its
// smallest name.
func circleIn(graph map[string][]string) []string {
	done := map[string]bool{}
	var path []string
	var visit func(node string) []string
	visit = func(node string) []string {
		if at := slices.Index(path, node); at >= 0 {
			circle := slices.Clone(path[at:])
			first := slices.Index(circle, slices.Min(circle))
			circle = slices.Concat(circle[first:], circle[:first])
			return append(circle, circle[0])
		}
		if done[node] {
			return nil
		}
		done[node] = true
		path = append(path, node)
		defer func() { path = path[:len(path)-1] }()
		for _, next := range graph[node] {
			if circle := visit(next); circle != nil {
				return circle
			}
		}
		return nil
	}
	nodes := make([]string, 0, len(graph))
	for node := range graph {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		if circle := visit(node); circle != nil {
			return circle
		}
	}
	return nil
}
