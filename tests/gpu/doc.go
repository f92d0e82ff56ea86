// Command gpu runs everything that only a machine with an NVIDIA GPU can show: the conformance
// suite of backends, the programs and checkpoints of the software GPU's tests, PyTorch, and the
// speed of phos beside the driver alone. "./build.sh gpu" starts it; a bundle made by "./build.sh
// gpu-bundle" brings it to a machine without Go and without the internet.
//
// It asks the machine first what it allows, and names the rows that are impossible there. What a
// row has shown is kept at once, so that a run that was cut off goes on where it ended. It is no
// test of the repository: without a GPU it says so and ends; with --driver, the driver may be
// libphos.so itself, before another phosd with a software GPU; then --sizes, --scale and --slowness
// make the rows small enough for it.
//
// Read row.go, then course.go, then attend.go.
package main
