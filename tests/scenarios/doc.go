// Package scenarios tests checkpoints and restores of programs in the environments where users run
// them: clones of one image, redirected output, other users, containers, terminals, Python worker
// processes. Programs that cannot be saved must be refused with the reason before any process is
// stopped. tests/checkpoint compares complete runs at random times instead.
//
// Read stepper_test.go first: most programs here take commands from the test.
package scenarios
