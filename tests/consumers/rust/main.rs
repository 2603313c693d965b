// Says what is on a picture, or, on as many workers as a launcher starts (RANK, WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT), fits a line to noisy points, or a network of its own to a product.
//   main classify MODEL PICTURE
//   main regression [kill RANK | record FOLDER]
//   main network [kill RANK]
mod gossamer;

use gossamer::{Gossip, Group, Method, Model, Network, Result, Tensor};

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

fn loss_of(net: &Network, training: bool, random: &mut u32) -> Result<Tensor> {
    let x: Vec<f32> = (0..64).map(|_| draw(random)).collect();
    let y: Vec<f32> = x.chunks(2).map(|pair| pair[0] * pair[1]).collect();
    net.forward(&Tensor::new(&x, &[32, 2])?, training)?.mse(&Tensor::new(&y, &[32, 1])?)
}

fn network(victim: Option<usize>) -> Result<()> {
    let group = Group::join()?;
    let (rank, size) = group.rank_and_size()?;
    let layers = "linear in=2 out=32; tanh; linear in=32 out=1";
    let net = Network::new(layers, 1, "sgd", "momentum=0.9")?;
    let mut method = Method::new(&net, &group, "a2cid2", "ring", 2000.0 * size as f64)?;
    eprintln!("worker {rank} begins");
    let mut random = 12345 + rank as u32;
    let mut step = 0;
    while !method.done()? {
        while victim == Some(rank) && step == 500 {
            std::thread::park(); // until it is killed
        }
        let loss = loss_of(&net, true, &mut random)?;
        net.zero_grad()?;
        loss.backward()?;
        method.step(0.05)?;
        step += 1;
    }
    method.finish()?;
    let error = loss_of(&net, false, &mut 99)?.item()?;
    println!("worker {rank} of {size}: error {error:.9}");
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
        ["network"] => network(None),
        ["network", "kill", rank] => network(rank.parse().ok()),
        _ => Err("main classify … | regression [kill … | record …] | network [kill …]".into()),
    }
}
