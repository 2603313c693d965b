// A safe Rust face of the part of gossamer.h that main.rs needs: what is made is freed when it goes
// out of scope, and every status is a Result.
#![allow(dead_code)] // a program may need less
use std::ffi::{c_char, c_void, CStr, CString};
use std::marker::PhantomData;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawClass {
    index: i64,
    probability: f32,
}

#[repr(C)]
struct RawOptions {
    struct_size: usize,
    total_steps: f64,
    rate: f64,
    seed: u64,
    period: i32,
    min_workers: i32,
    exchange_timeout_s: f64,
    record: *const c_char,
    replay: *const c_char,
    on_fault: Option<extern "C" fn(*const c_char, i32, *mut c_void)>,
    user: *mut c_void,
    finish_timeout_s: f64,
}

#[link(name = "gossamer")]
extern "C" {
    fn gsm_last_error() -> *const c_char;
    fn gsm_model_open(path: *const c_char, model: *mut *mut c_void) -> i32;
    fn gsm_model_classify_file(
        model: *mut c_void,
        path: *const c_char,
        classes: *mut RawClass,
        count: *mut i32,
    ) -> i32;
    fn gsm_model_class_name(model: *mut c_void, index: i64, name: *mut *const c_char) -> i32;
    fn gsm_model_free(model: *mut c_void) -> i32;
    fn gsm_group_join_env(group: *mut *mut c_void) -> i32;
    fn gsm_group_rank(group: *mut c_void, rank: *mut i32, size: *mut i32) -> i32;
    fn gsm_group_free(group: *mut c_void) -> i32;
    fn gsm_gossip_new(
        group: *mut c_void,
        x: *mut f32,
        n: i64,
        method: *const c_char,
        graph: *const c_char,
        options: *const RawOptions,
        gossip: *mut *mut c_void,
    ) -> i32;
    fn gsm_gossip_step(gossip: *mut c_void, update: *const f32) -> i32;
    fn gsm_gossip_done(gossip: *mut c_void, done: *mut i32) -> i32;
    fn gsm_gossip_finish(gossip: *mut c_void) -> i32;
    fn gsm_gossip_free(gossip: *mut c_void) -> i32;
    fn gsm_module_new(layers: *const c_char, seed: u64, module: *mut *mut c_void) -> i32;
    fn gsm_module_forward(
        module: *mut c_void,
        x: *mut c_void,
        training: i32,
        y: *mut *mut c_void,
    ) -> i32;
    fn gsm_module_free(module: *mut c_void) -> i32;
    fn gsm_params_new(params: *mut *mut c_void) -> i32;
    fn gsm_params_add_module(
        params: *mut c_void,
        prefix: *const c_char,
        module: *mut c_void,
    ) -> i32;
    fn gsm_params_zero_grad(params: *mut c_void) -> i32;
    fn gsm_params_free(params: *mut c_void) -> i32;
    fn gsm_optimizer_new(
        params: *mut c_void,
        name: *const c_char,
        settings: *const c_char,
        optimizer: *mut *mut c_void,
    ) -> i32;
    fn gsm_optimizer_free(optimizer: *mut c_void) -> i32;
    fn gsm_method_new_for(
        optimizer: *mut c_void,
        group: *mut c_void,
        method: *const c_char,
        graph: *const c_char,
        options: *const RawOptions,
        made: *mut *mut c_void,
    ) -> i32;
    fn gsm_method_step(method: *mut c_void, rate: f64) -> i32;
    fn gsm_method_done(method: *mut c_void, done: *mut i32) -> i32;
    fn gsm_method_finish(method: *mut c_void) -> i32;
    fn gsm_method_free(method: *mut c_void) -> i32;
    fn gsm_tensor_copy(
        data: *const c_void,
        kind: i32,
        shape: *const i64,
        rank: i32,
        tensor: *mut *mut c_void,
    ) -> i32;
    fn gsm_tensor_item(tensor: *mut c_void, value: *mut f32) -> i32;
    fn gsm_tensor_free(tensor: *mut c_void) -> i32;
    fn gsm_backward(loss: *mut c_void) -> i32;
    fn gsm_mse(a: *mut c_void, b: *mut c_void, loss: *mut *mut c_void) -> i32;
}

pub type Result<T> = std::result::Result<T, String>;

fn check(status: i32) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let text = unsafe { CStr::from_ptr(gsm_last_error()) };
    Err(text.to_string_lossy().into_owned())
}

fn text(s: &str) -> Result<CString> {
    CString::new(s).map_err(|e| e.to_string())
}

pub struct Model(*mut c_void);

impl Model {
    pub fn open(path: &str) -> Result<Model> {
        let mut model = std::ptr::null_mut();
        check(unsafe { gsm_model_open(text(path)?.as_ptr(), &mut model) })?;
        Ok(Model(model))
    }

    /// The most likely classes: their names and probabilities.
    pub fn classify(&self, picture: &str, most: usize) -> Result<Vec<(String, f32)>> {
        let mut classes = vec![RawClass::default(); most];
        let mut count = most as i32;
        check(unsafe {
            let path = text(picture)?;
            gsm_model_classify_file(self.0, path.as_ptr(), classes.as_mut_ptr(), &mut count)
        })?;
        let mut named = Vec::new();
        for c in &classes[..count as usize] {
            let mut name = std::ptr::null();
            check(unsafe { gsm_model_class_name(self.0, c.index, &mut name) })?;
            let name = unsafe { CStr::from_ptr(name) };
            named.push((name.to_string_lossy().into_owned(), c.probability));
        }
        Ok(named)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { gsm_model_free(self.0) };
    }
}

pub struct Group(*mut c_void);

impl Group {
    pub fn join() -> Result<Group> {
        let mut group = std::ptr::null_mut();
        check(unsafe { gsm_group_join_env(&mut group) })?;
        Ok(Group(group))
    }

    pub fn rank_and_size(&self) -> Result<(usize, usize)> {
        let (mut rank, mut size) = (0, 0);
        check(unsafe { gsm_group_rank(self.0, &mut rank, &mut size) })?;
        Ok((rank as usize, size as usize))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        unsafe { gsm_group_free(self.0) };
    }
}

/// Owns the parameters while they are exchanged.
pub struct Gossip<'a> {
    handle: *mut c_void,
    x: Box<[f32]>,
    group: PhantomData<&'a Group>,
}

impl<'a> Gossip<'a> {
    /// record: a folder into which the order of all events is written.
    pub fn new(
        group: &'a Group,
        x: Vec<f32>,
        method: &str,
        graph: &str,
        total_steps: f64,
        record: Option<&str>,
    ) -> Result<Gossip<'a>> {
        let mut x = x.into_boxed_slice();
        let record = record.map(text).transpose()?;
        // 0, NULL and None mean the default.
        let mut options: RawOptions = unsafe { std::mem::zeroed() };
        options.struct_size = std::mem::size_of::<RawOptions>();
        options.total_steps = total_steps;
        options.record = record.as_ref().map_or(std::ptr::null(), |r| r.as_ptr());
        let (method, graph) = (text(method)?, text(graph)?);
        let mut handle = std::ptr::null_mut();
        check(unsafe {
            gsm_gossip_new(
                group.0,
                x.as_mut_ptr(),
                x.len() as i64,
                method.as_ptr(),
                graph.as_ptr(),
                &options,
                &mut handle,
            )
        })?;
        Ok(Gossip { handle, x, group: PhantomData })
    }

    pub fn x(&self) -> &[f32] {
        &self.x
    }

    pub fn step(&mut self, update: &[f32]) -> Result<()> {
        assert_eq!(update.len(), self.x.len());
        check(unsafe { gsm_gossip_step(self.handle, update.as_ptr()) })
    }

    pub fn done(&mut self) -> Result<bool> {
        let mut done = 0;
        check(unsafe { gsm_gossip_done(self.handle, &mut done) })?;
        Ok(done != 0)
    }

    pub fn finish(&mut self) -> Result<()> {
        check(unsafe { gsm_gossip_finish(self.handle) })
    }
}

impl Drop for Gossip<'_> {
    fn drop(&mut self) {
        unsafe { gsm_gossip_free(self.handle) };
    }
}

/// f32 numbers, or a result of an op.
pub struct Tensor(*mut c_void);

impl Tensor {
    pub fn new(numbers: &[f32], shape: &[i64]) -> Result<Tensor> {
        assert_eq!(numbers.len() as i64, shape.iter().product::<i64>());
        let (data, rank) = (numbers.as_ptr() as *const c_void, shape.len() as i32);
        Tensor::made(|t| unsafe { gsm_tensor_copy(data, 0, shape.as_ptr(), rank, t) })
    }

    fn made(call: impl FnOnce(&mut *mut c_void) -> i32) -> Result<Tensor> {
        let mut tensor = std::ptr::null_mut();
        check(call(&mut tensor))?;
        Ok(Tensor(tensor))
    }

    pub fn mse(&self, wanted: &Tensor) -> Result<Tensor> {
        Tensor::made(|t| unsafe { gsm_mse(self.0, wanted.0, t) })
    }

    pub fn item(&self) -> Result<f32> {
        let mut value = 0.0;
        check(unsafe { gsm_tensor_item(self.0, &mut value) })?;
        Ok(value)
    }

    pub fn backward(&self) -> Result<()> {
        check(unsafe { gsm_backward(self.0) })
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe { gsm_tensor_free(self.0) };
    }
}

/// Layers from text, and the optimizer of their parameters.
pub struct Network {
    module: *mut c_void,
    params: *mut c_void,
    optimizer: *mut c_void,
}

impl Network {
    pub fn new(layers: &str, seed: u64, optimizer: &str, settings: &str) -> Result<Network> {
        let null = std::ptr::null_mut();
        let mut net = Network { module: null, params: null, optimizer: null };
        let (layers, name, settings) = (text(layers)?, text(optimizer)?, text(settings)?);
        unsafe {
            check(gsm_module_new(layers.as_ptr(), seed, &mut net.module))?;
            check(gsm_params_new(&mut net.params))?;
            check(gsm_params_add_module(net.params, std::ptr::null(), net.module))?;
            let (name, settings) = (name.as_ptr(), settings.as_ptr());
            check(gsm_optimizer_new(net.params, name, settings, &mut net.optimizer))?;
        }
        Ok(net)
    }

    pub fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        Tensor::made(|y| unsafe { gsm_module_forward(self.module, x.0, training as i32, y) })
    }

    pub fn zero_grad(&self) -> Result<()> {
        check(unsafe { gsm_params_zero_grad(self.params) })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        unsafe {
            gsm_optimizer_free(self.optimizer);
            gsm_params_free(self.params);
            gsm_module_free(self.module);
        }
    }
}

/// Exchanges the parameters of a network with other workers.
pub struct Method<'a> {
    handle: *mut c_void,
    of: PhantomData<(&'a Group, &'a Network)>,
}

impl<'a> Method<'a> {
    pub fn new(
        net: &'a Network,
        group: &'a Group,
        method: &str,
        graph: &str,
        total_steps: f64,
    ) -> Result<Method<'a>> {
        let mut options: RawOptions = unsafe { std::mem::zeroed() };
        options.struct_size = std::mem::size_of::<RawOptions>();
        options.total_steps = total_steps;
        let (method, graph) = (text(method)?, text(graph)?);
        let (method, graph) = (method.as_ptr(), graph.as_ptr());
        let mut handle = std::ptr::null_mut();
        check(unsafe {
            gsm_method_new_for(net.optimizer, group.0, method, graph, &options, &mut handle)
        })?;
        Ok(Method { handle, of: PhantomData })
    }

    pub fn step(&mut self, rate: f64) -> Result<()> {
        check(unsafe { gsm_method_step(self.handle, rate) })
    }

    pub fn done(&mut self) -> Result<bool> {
        let mut done = 0;
        check(unsafe { gsm_method_done(self.handle, &mut done) })?;
        Ok(done != 0)
    }

    pub fn finish(&mut self) -> Result<()> {
        check(unsafe { gsm_method_finish(self.handle) })
    }
}

impl Drop for Method<'_> {
    fn drop(&mut self) {
        unsafe { gsm_method_free(self.handle) };
    }
}
