// Says what is on a picture, or fits a line to noisy points on as many workers as a launcher starts
// (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT).
//   main classify MODEL PICTURE
//   main regression [kill RANK | record FOLDER]
mod gossamer;

use gossamer::{Gossip, Group, Model, Result};

// uniform in -1 … 1
fn draw(state: &mut u32) -> f32 {
    *state = state.wrapping_mul(1664525).wrapping_add(1013904223);
    (*state >> 8) as f32 / 8388608.0 - 1.0
}

fn regression(victim: Option<usize>, record: Option<&str>) -> Result<()> {
    let group = Group::join()?;
    let (rank, size) = group.rank_and_size()?;
    let total = 10000.0 * size as f64;
    let mut gossip = Gossip::new(&group, vec![0.0; 2], "a2cid2", "ring", total, record)?;
    eprintln!("worker {rank} begins");
    let mut random = 12345 + rank as u32;
    let mut step = 0;
    while !gossip.done()? {
        while victim == Some(rank) && step == 5000 {
            std::thread::park(); // until it is killed
        }
        let at = draw(&mut random);
        let y = 3.0 * at - 1.0 + 0.1 * draw(&mut random);
        let error = gossip.x()[0] * at + gossip.x()[1] - y;
        gossip.step(&[0.05 * error * at, 0.05 * error])?;
        step += 1;
    }
    gossip.finish()?;
    let x = gossip.x();
    println!("worker {rank} of {size}: y = {:.3} x {:+.3}", x[0], x[1]);
    println!("bits {:08x} {:08x}", x[0].to_bits(), x[1].to_bits());
    Ok(())
}

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        ["classify", model, picture] => {
            for (name, p) in Model::open(model)?.classify(picture, 3)? {
                println!("{:5.1} %  {name}", 100.0 * p);
            }
            Ok(())
        }
        ["regression"] => regression(None, None),
        ["regression", "kill", rank] => regression(rank.parse().ok(), None),
        ["regression", "record", folder] => regression(None, Some(folder)),
        _ => Err("main classify MODEL PICTURE | regression [kill RANK | record FOLDER]".into()),
    }
}
