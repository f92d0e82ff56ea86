package ptx

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/golden"
)

// texts returns the PTX files of testdata: written by hand to use every instruction, or generated
// by compilers.
func texts(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.ptx")
	if err != nil || len(files) < 10 {
		t.Fatalf("testdata: %d files, %v", len(files), err)
	}
	return files
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestGolden(t *testing.T) {
	for _, file := range texts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m, err := Parse(read(t, file))
			if err != nil {
				t.Fatalf("%s:\n%v", file, err)
			}
			golden.Check(t, strings.TrimSuffix(file, ".ptx")+".golden", []byte(m.Dump()))
		})
	}
}

// TestEveryOpcode checks that testdata contains each opcode and each sub-operation.
func TestEveryOpcode(t *testing.T) {
	ops, modes, specials, atoms := map[Op]bool{}, map[Mode]bool{}, map[Special]bool{}, map[AtomOp]bool{}
	for _, file := range texts(t) {
		m, err := Parse(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Funcs {
			for _, inst := range f.Insts {
				ops[inst.Op], modes[inst.Mode], atoms[inst.Atom] = true, true, true
				for _, o := range inst.Src {
					specials[o.Special] = true
				}
			}
		}
	}
	for op := OpAbs; int(op) < len(opNames); op++ {
		if !ops[op] {
			t.Errorf("no file has %s", op)
		}
	}
	for mode := MulHi; int(mode) < len(modeNames); mode++ {
		if !modes[mode] {
			t.Errorf("no file has mode %d, %s", mode, mode)
		}
	}
	for atom := AtomAdd; int(atom) < len(atomNames); atom++ {
		if !atoms[atom] {
			t.Errorf("no file has %s", atom)
		}
	}
	for special := range specialNames {
		family := strings.TrimRight(special.String(), "xyz")
		found := false
		for s := range specials {
			found = found || s != SpecialNone && strings.TrimRight(s.String(), "xyz") == family
		}
		if !found {
			t.Errorf("no file has %s", special)
		}
	}
}

// assemble runs NVIDIA's assembler on a text, if it is installed, as an independent check of valid
// PTX.
func assemble(t *testing.T, text string) error {
	t.Helper()
	assembler, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("no ptxas to compare with")
	}
	file := filepath.Join(t.TempDir(), "text.ptx")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(assembler, "-c", "-arch", "sm_90", "-o", os.DevNull, file).CombinedOutput()
	if err != nil {
		t.Logf("%s", out)
	}
	return err
}

// TestAssemblerAccepts checks that testdata is valid PTX.
func TestAssemblerAccepts(t *testing.T) {
	for _, file := range texts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if err := assemble(t, read(t, file)); err != nil {
				t.Error(err)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"nvcc_tiled", "triton_softmax", "tinygrad_elementwise", "integer"} {
		text := read(b, "testdata/"+name+".ptx")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
