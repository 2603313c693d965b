// Says what is on a picture, or, on as many workers as a launcher starts (RANK, WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT), fits a line to noisy points, or a network of its own to a product.
//
//	main classify MODEL PICTURE
//	main regression [RANK that waits until it is killed]
//	main network [RANK that waits until it is killed]
package main

/*
#cgo pkg-config: gossamer
#include <stdlib.h>
#include <gossamer.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"
)

// Runs a call on one thread of the system, so that its error text is its own.
func must(call func() C.gsm_status) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if call() != C.GSM_OK {
		fmt.Fprintln(os.Stderr, errors.New(C.GoString(C.gsm_last_error())))
		os.Exit(1)
	}
}

func classify(path, picture string) {
	var model *C.gsm_model
	file, image := C.CString(path), C.CString(picture)
	defer C.free(unsafe.Pointer(file))
	defer C.free(unsafe.Pointer(image))
	must(func() C.gsm_status { return C.gsm_model_open(file, &model) })
	var classes [3]C.gsm_class
	count := C.int32_t(len(classes))
	must(func() C.gsm_status { return C.gsm_model_classify_file(model, image, &classes[0], &count) })
	for _, c := range classes[:count] {
		var name *C.char
		must(func() C.gsm_status { return C.gsm_model_class_name(model, c.index, &name) })
		fmt.Printf("%5.1f %%  %s\n", 100*float64(c.probability), C.GoString(name))
	}
	must(func() C.gsm_status { return C.gsm_model_free(model) })
}

// uniform in -1 … 1
func draw(state *uint32) float32 {
	*state = *state*1664525 + 1013904223
	return float32(*state>>8)/8388608 - 1
}

func regression(victim int) {
	var group *C.gsm_group
	var gossip *C.gsm_gossip
	var rank, size, done C.int32_t
	must(func() C.gsm_status { return C.gsm_group_join_env(&group) })
	must(func() C.gsm_status { return C.gsm_group_rank(group, &rank, &size) })
	// The library keeps the parameters' address, so they are not Go's.
	memory := (*C.float)(C.calloc(2, 4))
	x := unsafe.Slice((*float32)(unsafe.Pointer(memory)), 2)
	method, graph := C.CString("a2cid2"), C.CString("ring")
	var options C.gsm_gossip_options
	options.struct_size = C.size_t(unsafe.Sizeof(options))
	options.total_steps = C.double(10000 * size)
	must(func() C.gsm_status {
		return C.gsm_gossip_new(group, memory, 2, method, graph, &options, &gossip)
	})
	fmt.Fprintf(os.Stderr, "worker %d begins\n", rank)
	random := uint32(12345 + rank)
	for step := 0; done == 0; step++ {
		if int(rank) == victim && step == 5000 {
			time.Sleep(time.Hour) // until it is killed
		}
		at := draw(&random)
		y := 3*at - 1 + 0.1*draw(&random)
		e := x[0]*at + x[1] - y
		update := [2]C.float{C.float(0.05 * e * at), C.float(0.05 * e)}
		must(func() C.gsm_status { return C.gsm_gossip_step(gossip, &update[0]) })
		must(func() C.gsm_status { return C.gsm_gossip_done(gossip, &done) })
	}
	must(func() C.gsm_status { return C.gsm_gossip_finish(gossip) })
	fmt.Printf("worker %d of %d: y = %.3f x %+.3f\n", rank, size, x[0], x[1])
	must(func() C.gsm_status { return C.gsm_gossip_free(gossip) })
	must(func() C.gsm_status { return C.gsm_group_free(group) })
}

func tensor(numbers []C.float, rows, columns int) *C.gsm_tensor {
	var made *C.gsm_tensor
	shape := [2]C.int64_t{C.int64_t(rows), C.int64_t(columns)}
	must(func() C.gsm_status {
		return C.gsm_tensor_copy(unsafe.Pointer(&numbers[0]), C.GSM_F32, &shape[0], 2, &made)
	})
	return made
}

// The tensors that it makes are to be freed, the loss last.
func lossOf(net *C.gsm_module, training C.int32_t, random *uint32) [4]*C.gsm_tensor {
	var x [64]C.float
	var y [32]C.float
	for i := range y {
		x[2*i], x[2*i+1] = C.float(draw(random)), C.float(draw(random))
		y[i] = x[2*i] * x[2*i+1]
	}
	inputs, wanted := tensor(x[:], 32, 2), tensor(y[:], 32, 1)
	var outputs, loss *C.gsm_tensor
	must(func() C.gsm_status { return C.gsm_module_forward(net, inputs, training, &outputs) })
	must(func() C.gsm_status { return C.gsm_mse(outputs, wanted, &loss) })
	return [4]*C.gsm_tensor{inputs, wanted, outputs, loss}
}

func free(tensors [4]*C.gsm_tensor) {
	for _, each := range tensors {
		must(func() C.gsm_status { return C.gsm_tensor_free(each) })
	}
}

// A tape belongs to no thread of the system, so goroutines may move between its calls.
func network(victim int) {
	var group *C.gsm_group
	var net *C.gsm_module
	var params *C.gsm_params
	var sgd *C.gsm_optimizer
	var training *C.gsm_method
	var rank, size, done C.int32_t
	must(func() C.gsm_status { return C.gsm_group_join_env(&group) })
	must(func() C.gsm_status { return C.gsm_group_rank(group, &rank, &size) })
	layers := C.CString("linear in=2 out=32; tanh; linear in=32 out=1")
	name, settings := C.CString("sgd"), C.CString("momentum=0.9")
	method, graph := C.CString("a2cid2"), C.CString("ring")
	var options C.gsm_gossip_options
	options.struct_size = C.size_t(unsafe.Sizeof(options))
	options.total_steps = C.double(2000 * size)
	must(func() C.gsm_status { return C.gsm_module_new(layers, 1, &net) })
	must(func() C.gsm_status { return C.gsm_params_new(&params) })
	must(func() C.gsm_status { return C.gsm_params_add_module(params, nil, net) })
	must(func() C.gsm_status { return C.gsm_optimizer_new(params, name, settings, &sgd) })
	must(func() C.gsm_status {
		return C.gsm_method_new_for(sgd, group, method, graph, &options, &training)
	})
	fmt.Fprintf(os.Stderr, "worker %d begins\n", rank)
	random := uint32(12345 + rank)
	for step := 0; done == 0; step++ {
		if int(rank) == victim && step == 500 {
			time.Sleep(time.Hour) // until it is killed
		}
		tensors := lossOf(net, 1, &random)
		must(func() C.gsm_status { return C.gsm_params_zero_grad(params) })
		must(func() C.gsm_status { return C.gsm_backward(tensors[3]) })
		must(func() C.gsm_status { return C.gsm_method_step(training, 0.05) })
		must(func() C.gsm_status { return C.gsm_method_done(training, &done) })
		free(tensors)
	}
	must(func() C.gsm_status { return C.gsm_method_finish(training) })
	random = 99
	var e C.float
	tensors := lossOf(net, 0, &random)
	must(func() C.gsm_status { return C.gsm_tensor_item(tensors[3], &e) })
	free(tensors)
	fmt.Printf("worker %d of %d: error %.9f\n", rank, size, float64(e))
	must(func() C.gsm_status { return C.gsm_method_free(training) })
	must(func() C.gsm_status { return C.gsm_optimizer_free(sgd) })
	must(func() C.gsm_status { return C.gsm_params_free(params) })
	must(func() C.gsm_status { return C.gsm_module_free(net) })
	must(func() C.gsm_status { return C.gsm_group_free(group) })
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "classify" {
		classify(os.Args[2], os.Args[3])
		return
	}
	victim := -1
	if len(os.Args) == 3 {
		victim, _ = strconv.Atoi(os.Args[2])
	}
	if len(os.Args) > 1 && os.Args[1] == "network" {
		network(victim)
		return
	}
	regression(victim)
}
