// Command gpu runs everything that needs a machine with an NVIDIA GPU: the conformance suite of
// backends, the programs and checkpoints of the software GPU's tests, PyTorch, and the speed of
// phos compared with the driver alone. "./build.sh gpu" starts it. A bundle made by "./build.sh
// gpu-bundle" runs on a machine without Go and without internet access.
//
// It first checks what the machine allows, and names the rows that are impossible there. Each row's
// outcome is stored at once, so that an interrupted run can be continued. It is not a test of the
// repository: without a GPU it prints that and exits. With --driver, the driver may be libphos.so
// itself, connected to another phosd with a software GPU; then --sizes, --scale and --slowness make
// the rows small enough.
//
// Read row.go, then course.go, then attend.go.
package main
