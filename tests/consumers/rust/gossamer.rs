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
