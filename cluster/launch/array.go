package launch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkArray checks the parameters of an array.
func (c *checker) checkArray(s *Spec) {
	launches := 1
	for _, name := range slices.Sorted(maps.Keys(s.Array)) {
		field := join("array", name)
		values := s.Array[name]
		if len(values) == 0 {
			c.wrong(field, nil, "has no values")
		}
		if launches *= len(values); launches > MaxArray {
			c.wrong("array", nil, fmt.Sprintf("more than %d combinations", MaxArray))
			return
		}
		if _, found := s.Variables[name]; found {
			c.wrong(field, nil, "env has a variable of the same name")
		}
		parameter := make(map[string]string, 1)
		for _, each := range values {
			parameter[name] = string(each)
			c.environment("array", parameter)
		}
	}
}

// Expand returns the launches of an array, in the order of their parameters' names and values; the
// Spec itself if it is none. The Spec must be checked.
func (s Spec) Expand() []Spec {
	all := []map[string]string{nil}
	for _, name := range slices.Sorted(maps.Keys(s.Array)) {
		var next []map[string]string
		for _, chosen := range all {
			for _, value := range s.Array[name] {
				more := map[string]string{name: string(value)}
				maps.Copy(more, chosen)
				next = append(next, more)
			}
		}
		all = next
	}
	launches := make([]Spec, len(all))
	for i, chosen := range all {
		launches[i] = s.with(chosen)
	}
	return launches
}

// with returns the launch of an array with these values of its parameters.
func (s Spec) with(chosen map[string]string) Spec {
	environment := maps.Clone(s.Variables)
	if environment == nil {
		environment = make(map[string]string, len(chosen))
	}
	maps.Copy(environment, chosen)
	s.Variables, s.Array = environment, nil
	var pairs []string
	for name, value := range chosen {
		pairs = append(pairs, "{"+name+"}", value)
	}
	replace := strings.NewReplacer(pairs...) // in one pass: a value may hold {NAME} itself
	s.Jobs = slices.Clone(s.Jobs)
	for i := range s.Jobs {
		s.Jobs[i].Processes = slices.Clone(s.Jobs[i].Processes)
		for k := range s.Jobs[i].Processes {
			command := slices.Clone(s.Jobs[i].Processes[k].Command)
			for at := range command {
				command[at] = replace.Replace(command[at])
			}
			s.Jobs[i].Processes[k].Command = command
		}
	}
	return s
}
